package main

import (
	"fmt"

	ray "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils"
)

func init() {
	empty["RayCronJob"] = func() any { return &ray.RayCronJob{} }
}

// check calls the operator's checks in the order of its reconcilers.
func check(object any) error {
	switch held := object.(type) {
	case *ray.RayCluster:
		return first(
			func() error { return utils.ValidateRayClusterMetadata(held.ObjectMeta) },
			func() error { return utils.ValidateRayClusterSpec(&held.Spec, held.Annotations) },
			func() error { return utils.ValidateRayClusterUpgradeOptions(held) },
			func() error { return utils.ValidateRayClusterStatus(held) },
		)
	case *ray.RayJob:
		return first(
			func() error { return utils.ValidateRayJobMetadata(held.ObjectMeta) },
			func() error { return utils.ValidateRayJobSpec(held) },
			func() error { return utils.ValidateRayJobStatus(held) },
		)
	case *ray.RayService:
		return first(
			func() error { return utils.ValidateRayServiceMetadata(held.ObjectMeta) },
			func() error { return utils.ValidateRayServiceSpec(held) },
		)
	case *ray.RayCronJob:
		return utils.ValidateRayCronJobSpec(held)
	}
	return fmt.Errorf("unknown type %T", object)
}
