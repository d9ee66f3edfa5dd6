package main

import (
	"fmt"

	ray "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// check calls the operator's checks in the order of its reconcilers.
func check(object any) error {
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
