package main

import (
	"context"
	"fmt"
	"maps"
	"strings"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	ray "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/common"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils"
)

const generated = "xxxxx"

func init() {
	children = func(object any) []child {
		switch held := object.(type) {
		case *ray.RayCluster:
			return pods(held)
		case *ray.RayService:
			return pods(owned(held.ObjectMeta, held.Spec.RayClusterSpec, "RayService"))
		case *ray.RayJob:
			return job(held)
		case *ray.RayCronJob:
			named := held.ObjectMeta.DeepCopy()
			named.Name += "-" + generated
			return job(&ray.RayJob{ObjectMeta: *named, Spec: *held.Spec.JobTemplate.DeepCopy()})
		}
		return nil
	}
}

// owned returns the RayCluster that the operator makes for a RayJob or RayService.
func owned(of meta.ObjectMeta, spec ray.RayClusterSpec, kind string) *ray.RayCluster {
	made := &ray.RayCluster{ObjectMeta: meta.ObjectMeta{Name: of.Name + "-" + generated, Namespace: of.Namespace}}
	made.Labels, made.Annotations = map[string]string{}, map[string]string{}
	maps.Copy(made.Labels, of.Labels)
	maps.Copy(made.Annotations, of.Annotations)
	made.Labels[utils.RayOriginatedFromCRDLabelKey] = kind
	made.Spec = *spec.DeepCopy()
	return made
}

// pods returns the head's pod and one of each worker group.
func pods(cluster *ray.RayCluster) (found []child) {
	if cluster.Namespace == "" {
		cluster.Namespace = "default"
	}
	if cluster.Name == "" {
		cluster.Name = cluster.GenerateName + generated
	}
	ctx := context.Background()
	params := &cluster.Spec.HeadGroupSpec.RayStartParams
	if *params == nil {
		*params = map[string]string{}
	}
	port := common.GetHeadPort(*params)
	autoscaled := utils.IsAutoscalingEnabled(&cluster.Spec)
	address := utils.GenerateFQDNServiceName(ctx, *cluster, cluster.Namespace)
	creator := utils.GetCRDType(cluster.Labels[utils.RayOriginatedFromCRDLabelKey])
	named := utils.PodName(cluster.Name, ray.HeadNode, true)
	template := common.DefaultHeadPodTemplate(ctx, *cluster.DeepCopy(), *cluster.Spec.HeadGroupSpec.DeepCopy(), named, port)
	head := common.BuildPod(ctx, template, ray.HeadNode, *params, port, autoscaled, creator, address, nil, cluster.Spec.RayVersion)
	found = append(found, child{"headGroupSpec", head})
	for index, group := range cluster.Spec.WorkerGroupSpecs {
		if group.RayStartParams == nil {
			group.RayStartParams = map[string]string{}
		}
		named := utils.PodName(cluster.Name+"-"+group.GroupName, ray.WorkerNode, true)
		template := common.DefaultWorkerPodTemplate(ctx, *cluster.DeepCopy(), *group.DeepCopy(), named, address, port, group.GroupName+"-"+generated, 0, 0)
		worker := common.BuildPod(ctx, template, ray.WorkerNode, group.RayStartParams, port, autoscaled, creator, address, nil, cluster.Spec.RayVersion)
		found = append(found, child{fmt.Sprintf("workerGroupSpecs[%d]", index), worker})
	}
	return found
}

// job returns the pods of a RayJob's cluster, and the Job that submits it.
func job(of *ray.RayJob) (found []child) {
	var cluster *ray.RayCluster
	of.Status.JobId, of.Status.DashboardURL = of.Name+"-"+generated, "head.default.svc.cluster.local:8265"
	mode := of.Spec.SubmissionMode
	if mode == "" {
		mode = ray.K8sJobMode
	}
	if of.Spec.RayClusterSpec != nil {
		cluster = owned(of.ObjectMeta, *of.Spec.RayClusterSpec, "RayJob")
		if mode == ray.SidecarMode {
			submitter := common.GetDefaultSubmitterContainer(&cluster.Spec)
			submits(&submitter, of, cluster, mode)
			pod := &cluster.Spec.HeadGroupSpec.Template.Spec
			pod.Containers = append(pod.Containers, submitter)
			pod.RestartPolicy = core.RestartPolicyNever
		}
		found = pods(cluster)
	}
	if mode != ray.K8sJobMode || (cluster == nil && of.Spec.SubmitterPodTemplate == nil) {
		return found
	}
	submitted := cluster
	if submitted == nil {
		submitted = &ray.RayCluster{}
	}
	template := common.GetSubmitterTemplate(&of.Spec, &submitted.Spec)
	submits(&template.Spec.Containers[utils.RayContainerIndex], of, submitted, mode)
	if utils.IsK8sAuthEnabled(submitted.Spec.AuthOptions) {
		common.AddRayTokenVolume(&template.Spec)
	}
	made := batch.Job{
		TypeMeta:   meta.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: meta.ObjectMeta{Name: of.Name, Namespace: "default"},
		Spec:       batch.JobSpec{Template: template},
	}
	pod := core.Pod{
		TypeMeta:   meta.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: *template.ObjectMeta.DeepCopy(),
		Spec:       *template.Spec.DeepCopy(),
	}
	pod.Name, pod.Namespace = of.Name+"-"+generated, "default"
	return append(found, child{"submitterPodTemplate", made}, child{"submitterPodTemplate", pod})
}

// submits makes a container the one that submits a RayJob.
func submits(container *core.Container, of *ray.RayJob, cluster *ray.RayCluster, mode ray.JobSubmissionMode) {
	command, err := common.BuildJobSubmitCommand(of, mode)
	if err != nil {
		panic(err)
	}
	if len(container.Command) == 0 || mode == ray.SidecarMode {
		container.Command = utils.GetContainerCommand([]string{"e"})
		container.Args = []string{strings.Join(command, " ")}
	}
	container.Env = append(container.Env,
		core.EnvVar{Name: "PYTHONUNBUFFERED", Value: "1"},
		core.EnvVar{Name: utils.RAY_DASHBOARD_ADDRESS, Value: of.Status.DashboardURL},
		core.EnvVar{Name: utils.RAY_JOB_SUBMISSION_ID, Value: of.Status.JobId},
	)
	if utils.IsAuthEnabled(&cluster.Spec) {
		common.SetContainerTokenAuthEnvVars(cluster.Name, container, cluster.Spec.AuthOptions)
	}
}
