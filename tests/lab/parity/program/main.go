// Says of Ray objects what the API server and KubeRay would say: one JSON object a line in, a verdict a line out.
//
// tests/lab/parity/build.py copies this file and objects.go beside the go.mod of a KubeRay version and the newest operator.go up to it, and builds them.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	names "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	strict "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const longestLine = 64 << 20

// question is one line of standard input.
type question struct {
	Object map[string]any  `json:"object"`
	Gates  map[string]bool `json:"gates"`
	Make   bool            `json:"make"`
}

// verdict is one line of standard output; everything empty means that the object is taken.
type verdict struct {
	Schema   []string `json:"schema,omitempty"`
	Pruned   []string `json:"pruned,omitempty"`
	Decode   string   `json:"decode,omitempty"`
	Operator string   `json:"operator,omitempty"`
	Panic    string   `json:"panic,omitempty"`
	Unknown  string   `json:"unknown,omitempty"`
	Children []child  `json:"children,omitempty"`
}

// child is a Pod, or a Job of a pod, that the operator makes for an object, and the part of the object that it is made from.
type child struct {
	Part   string `json:"part"`
	Object any    `json:"object"`
}

// children makes them; a version of KubeRay that is not asked for them has none.
var children func(object any) []child

// served is what the API server does with one version of a kind.
type served struct {
	structural *schema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
	namespaced bool
}

func main() {
	kinds, err := load(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	input := bufio.NewReaderSize(os.Stdin, 1<<20)
	output := bufio.NewWriter(os.Stdout)
	os.Stdout = os.Stderr // some of the operator's functions print
	scanner := bufio.NewScanner(input)
	scanner.Buffer(make([]byte, 1<<20), longestLine)
	for scanner.Scan() {
		line, err := json.Marshal(answer(kinds, scanner.Bytes()))
		if err != nil {
			panic(err)
		}
		output.Write(append(line, '\n'))
		output.Flush()
	}
	if err := scanner.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func load(folder string) (map[string]*served, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no CustomResourceDefinitions in %s", folder)
	}
	kinds := map[string]*served{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		outer := &extensions.CustomResourceDefinition{}
		if err := yaml.Unmarshal(data, outer); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for i := range outer.Spec.Versions {
			version := &outer.Spec.Versions[i]
			made, err := serve(version)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			made.namespaced = outer.Spec.Scope == extensions.NamespaceScoped
			kinds[outer.Spec.Group+"/"+version.Name+"/"+outer.Spec.Names.Kind] = made
		}
	}
	return kinds, nil
}

func serve(version *extensions.CustomResourceDefinitionVersion) (*served, error) {
	inner := &apiextensions.CustomResourceValidation{}
	if err := extensions.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(version.Schema, inner, nil); err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(inner.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	if err := defaulting.PruneDefaults(structural); err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(inner.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	return &served{structural, validator, cel.NewValidator(structural, true, celconfig.PerCallLimit), true}, nil
}

func answer(kinds map[string]*served, line []byte) (said verdict) {
	asked := question{}
	if err := strict.UnmarshalCaseSensitivePreserveInts(line, &asked); err != nil {
		return verdict{Unknown: err.Error()}
	}
	defer func() {
		if caught := recover(); caught != nil {
			said.Panic = fmt.Sprint(caught)
		}
	}()
	object := asked.Object
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	known := kinds[version+"/"+kind]
	if known == nil {
		return verdict{Unknown: version + "/" + kind}
	}
	said.Pruned, said.Schema = known.store(object)
	if len(said.Schema) > 0 {
		return said
	}
	object["apiVersion"] = "ray.io/v1"
	if stored := kinds["ray.io/v1/"+kind]; stored != nil && stored != known {
		defaulting.Default(object, stored.structural)
		pruning.Prune(object, stored.structural, true)
	}
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	decoded, err := decode(kind, func(into any) error {
		return strict.UnmarshalCaseSensitivePreserveInts(raw, into)
	})
	if err != nil {
		said.Decode = err.Error()
		return said
	}
	if err := validate(decoded, asked.Gates); err != nil {
		said.Operator = err.Error()
	} else if asked.Make && children != nil {
		said.Children = children(decoded)
	}
	return said
}

// store changes an object as the API server does, and returns what it drops and why it refuses the object.
func (known *served) store(object map[string]any) (pruned, problems []string) {
	root := (*field.Path)(nil)
	delete(object, "status")
	if err := objectmeta.Coerce(root, object, known.structural, true, false); err != nil {
		return nil, []string{err.Error()}
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(object, known.structural)
	defaulting.Default(object, known.structural)
	pruned = pruning.PruneWithOptions(object, known.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	wrong := validation.ValidateCustomResource(root, object, known.validator)
	wrong = append(wrong, listtype.ValidateListSetsAndMaps(root, known.structural, object)...)
	wrong = append(wrong, objectmeta.Validate(root, object, known.structural, true)...)
	wrong = append(wrong, metadata(object)...)
	if known.rules != nil && len(wrong) == 0 {
		found, _ := known.rules.Validate(context.Background(), root, known.structural, object, nil, celconfig.RuntimeCELCostBudget)
		wrong = append(wrong, found...)
	}
	for _, each := range wrong {
		problems = append(problems, each.Error())
	}
	return pruned, problems
}

func metadata(object map[string]any) field.ErrorList {
	held := &unstructured.Unstructured{Object: object}
	if held.GetNamespace() == "" {
		held.SetNamespace("default")
	}
	if held.GetName() == "" && held.GetGenerateName() != "" {
		held.SetName(held.GetGenerateName() + "xxxxx")
	}
	return names.ValidateObjectMetaAccessor(held, true, names.NameIsDNSSubdomain, field.NewPath("metadata"))
}
