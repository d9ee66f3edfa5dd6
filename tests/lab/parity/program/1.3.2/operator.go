package main

import (
	"fmt"

	ray "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils"
	_ "github.com/ray-project/kuberay/ray-operator/pkg/features"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	gates "k8s.io/apiserver/pkg/util/feature"
)

// decode reads an object as the operator's client does.
func decode(kind string, read func(any) error) (any, error) {
	var into any
	switch kind {
	case "RayCluster":
		into = &ray.RayCluster{}
	case "RayJob":
		into = &ray.RayJob{}
	case "RayService":
		into = &ray.RayService{}
	default:
		return nil, fmt.Errorf("unknown kind %s", kind)
	}
	return into, read(into)
}

// validate calls the operator's checks in the order of its reconcilers.
func validate(object any, wanted map[string]bool) error {
	if err := gates.DefaultMutableFeatureGate.SetFromMap(wanted); err != nil {
		return err
	}
	switch held := object.(type) {
	case *ray.RayCluster:
		return first(
			func() error { return utils.ValidateRayClusterSpec(held) },
			func() error { return utils.ValidateRayClusterStatus(held) },
		)
	case *ray.RayJob:
		return first(
			func() error { return utils.ValidateRayJobSpec(held) },
			func() error { return utils.ValidateRayJobStatus(held) },
			func() error { return cluster(held.ObjectMeta, held.Spec.RayClusterSpec) },
		)
	case *ray.RayService:
		return first(
			func() error { return utils.ValidateRayServiceSpec(held) },
			func() error { return cluster(held.ObjectMeta, &held.Spec.RayClusterSpec) },
		)
	}
	return fmt.Errorf("unknown type %T", object)
}

// cluster calls the check of the RayCluster that the operator makes of a RayJob or RayService.
func cluster(owner meta.ObjectMeta, spec *ray.RayClusterSpec) error {
	if spec == nil {
		return nil
	}
	made := &ray.RayCluster{Spec: *spec}
	made.Annotations = owner.Annotations
	return utils.ValidateRayClusterSpec(made)
}

func first(checks ...func() error) error {
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}
