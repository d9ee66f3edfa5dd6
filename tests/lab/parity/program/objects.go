package main

import (
	"fmt"

	ray "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	_ "github.com/ray-project/kuberay/ray-operator/pkg/features"
	gates "k8s.io/apiserver/pkg/util/feature"
)

// empty makes an object of each kind; operator.go adds those that not every version has.
var empty = map[string]func() any{
	"RayCluster": func() any { return &ray.RayCluster{} },
	"RayJob":     func() any { return &ray.RayJob{} },
	"RayService": func() any { return &ray.RayService{} },
}

// decode reads an object as the operator's client does.
func decode(kind string, read func(any) error) (any, error) {
	made, known := empty[kind]
	if !known {
		return nil, fmt.Errorf("unknown kind %s", kind)
	}
	into := made()
	return into, read(into)
}

// validate calls the operator's checks with these feature gates.
func validate(object any, wanted map[string]bool) error {
	if err := gates.DefaultMutableFeatureGate.SetFromMap(wanted); err != nil {
		return err
	}
	return check(object)
}

func first(checks ...func() error) error {
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}
