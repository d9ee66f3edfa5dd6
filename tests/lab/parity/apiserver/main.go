// Says of Pods and Jobs whether the API server would create them: one JSON object a line in, a list of problems a line out.
//
// tests/lab/parity/build.py copies this file beside the go.mod of a version of Kubernetes, and builds the two.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	request "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	core "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/core/pod"

	errors "k8s.io/apimachinery/pkg/api/errors"
)

const longestLine = 64 << 20

func main() {
	capabilities.Setup(true, 0) // as the API server does with --allow-privileged, which clusters have
	output := bufio.NewWriter(os.Stdout)
	scanner := bufio.NewScanner(os.Stdin)
	scanner.Buffer(make([]byte, 1<<20), longestLine)
	for scanner.Scan() {
		line, err := json.Marshal(judge(scanner.Bytes()))
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

// judge does what the API server does to create an object: decode, default, drop what is not enabled, validate.
func judge(line []byte) []string {
	object, _, err := legacyscheme.Codecs.UniversalDecoder().Decode(withAccount(line), nil, nil)
	if err != nil {
		return []string{err.Error()}
	}
	accessor, err := metaOf(object)
	if err != nil {
		return []string{err.Error()}
	}
	if accessor.Name == "" {
		accessor.Name = accessor.GenerateName + "xxxxx"
	}
	accessor.UID, accessor.CreationTimestamp = "0000", meta.NewTime(time.Unix(1, 0))
	asked := &request.RequestInfo{IsResourceRequest: true, Verb: "create", APIVersion: "v1", Namespace: accessor.Namespace}
	ctx := request.WithRequestInfo(request.WithNamespace(context.Background(), accessor.Namespace), asked)
	switch object.(type) {
	case *core.Pod:
		asked.Resource = "pods"
		return problems(rest.BeforeCreate(pod.Strategy, ctx, object))
	default:
		asked.APIGroup, asked.Resource = "batch", "jobs"
		return problems(rest.BeforeCreate(job.Strategy, ctx, object))
	}
}

// withAccount gives a Pod the account that the admission plugin ServiceAccount gives it.
func withAccount(line []byte) []byte {
	object := map[string]any{}
	if err := json.Unmarshal(line, &object); err != nil || object["kind"] != "Pod" {
		return line
	}
	spec, ok := object["spec"].(map[string]any)
	if !ok || spec["serviceAccountName"] != nil || spec["serviceAccount"] != nil {
		return line
	}
	spec["serviceAccountName"] = "default"
	changed, err := json.Marshal(object)
	if err != nil {
		return line
	}
	return changed
}

func metaOf(object runtime.Object) (*meta.ObjectMeta, error) {
	switch held := object.(type) {
	case *core.Pod:
		return &held.ObjectMeta, nil
	case *batch.Job:
		return &held.ObjectMeta, nil
	}
	return nil, fmt.Errorf("%T is neither a Pod nor a Job", object)
}

func problems(err error) (found []string) {
	if err == nil {
		return []string{}
	}
	status, ok := err.(errors.APIStatus)
	if !ok || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return []string{err.Error()}
	}
	for _, cause := range status.Status().Details.Causes {
		found = append(found, cause.Field+": "+cause.Message)
	}
	return found
}
