package main

import (
	"context"
	"crypto/sha1"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Loaded by the test's shell.
const image = "localhost/quell:1"

type pod struct {
	namespace, name, uid string
	labels, annotations  map[string]string
	resources            resources
	script               string
	sandbox, container   string
	attempt              uint32
	config               *runtime.PodSandboxConfig
}

func (n *node) list(ctx context.Context) (string, error) {
	answer, err := n.images.ListImages(ctx, &runtime.ListImagesRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return "", err
	}
	var tags []string
	for _, image := range answer.Images {
		tags = append(tags, image.RepoTags...)
	}
	return strings.Join(tags, " "), nil
}

// run is the kubelet's SyncPod: cgroup, sandbox, container.
func (n *node) run(ctx context.Context, name string, options map[string]string, script string) (string, error) {
	if n.pods[name] != nil {
		return "", fmt.Errorf("there is a pod %q", name)
	}
	hash := sha1.Sum([]byte(name))
	p := &pod{namespace: "default", name: name, script: script}
	p.uid = fmt.Sprintf("%x-%x-%x-%x-%x", hash[:4], hash[4:6], hash[6:8], hash[8:10], hash[10:16])
	p.labels, p.annotations = pairs(options["labels"]), pairs(options["annotations"])
	if namespace := options["namespace"]; namespace != "" {
		p.namespace = namespace
	}
	var err error
	if p.resources, err = read(options); err != nil {
		return "", err
	}
	n.pods[name] = p
	if err := n.group(p); err != nil {
		return "", err
	}
	labels := map[string]string{
		"io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": p.namespace, "io.kubernetes.pod.uid": p.uid,
	}
	for key, value := range p.labels {
		labels[key] = value
	}
	annotations := map[string]string{
		"kubernetes.io/config.seen": time.Now().Format(time.RFC3339Nano), "kubernetes.io/config.source": "api",
	}
	for key, value := range p.annotations {
		annotations[key] = value
	}
	p.config = &runtime.PodSandboxConfig{
		Metadata:     &runtime.PodSandboxMetadata{Name: name, Uid: p.uid, Namespace: p.namespace},
		LogDirectory: n.folder,
		Labels:       labels,
		Annotations:  annotations,
		Linux: &runtime.LinuxPodSandboxConfig{
			CgroupParent: p.cgroup(),
			SecurityContext: &runtime.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtime.NamespaceOption{Network: runtime.NamespaceMode_NODE},
			},
			Overhead:  &runtime.LinuxContainerResources{},
			Resources: p.resources.pod(),
		},
	}
	answer, err := n.runtime.RunPodSandbox(ctx, &runtime.RunPodSandboxRequest{Config: p.config})
	if err != nil {
		return "", err
	}
	p.sandbox = answer.PodSandboxId
	return n.start(ctx, p)
}

// start makes the pod's next container and starts it.
func (n *node) start(ctx context.Context, p *pod) (string, error) {
	request := &runtime.CreateContainerRequest{
		PodSandboxId:  p.sandbox,
		SandboxConfig: p.config,
		Config: &runtime.ContainerConfig{
			Metadata: &runtime.ContainerMetadata{Name: "main", Attempt: p.attempt},
			Image:    &runtime.ImageSpec{Image: image},
			Command:  []string{"/bin/sh", "-c", p.script},
			LogPath:  p.name + ".log",
			Labels: map[string]string{
				"io.kubernetes.container.name": "main", "io.kubernetes.pod.name": p.name,
				"io.kubernetes.pod.namespace": p.namespace, "io.kubernetes.pod.uid": p.uid,
			},
			Annotations: map[string]string{
				"io.kubernetes.container.restartCount":           strconv.Itoa(int(p.attempt)),
				"io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
				"io.kubernetes.pod.terminationGracePeriod":       "30",
			},
			Linux: &runtime.LinuxContainerConfig{
				Resources: p.resources.container(),
				SecurityContext: &runtime.LinuxContainerSecurityContext{
					NamespaceOptions: &runtime.NamespaceOption{Network: runtime.NamespaceMode_NODE},
				},
			},
		},
	}
	p.attempt++
	answer, err := n.runtime.CreateContainer(ctx, request)
	if err != nil {
		return "", err
	}
	p.container = answer.ContainerId
	_, err = n.runtime.StartContainer(ctx, &runtime.StartContainerRequest{ContainerId: p.container})
	return p.container, err
}

// resize as the kubelet does: the pod's cgroup grows before its container, and shrinks after it.
func (n *node) resize(ctx context.Context, p *pod, options map[string]string) (string, error) {
	wanted, err := read(options)
	if err != nil {
		return "", err
	}
	if wanted.class() != p.resources.class() {
		return "", fmt.Errorf("a resize does not change the class of a pod")
	}
	before := p.resources
	if wanted.requests > before.requests || wanted.limits > before.limits {
		p.resources = wanted
		if err := n.group(p); err != nil {
			return "", err
		}
	}
	request := &runtime.UpdateContainerResourcesRequest{ContainerId: p.container, Linux: wanted.container()}
	if _, err := n.runtime.UpdateContainerResources(ctx, request, grpc.WaitForReady(true)); err != nil {
		p.resources = before
		if undone := n.group(p); undone != nil {
			return "", undone
		}
		return "", err
	}
	p.resources = wanted
	return "", n.group(p)
}

func (n *node) state(ctx context.Context, p *pod) (string, error) {
	request := &runtime.ContainerStatusRequest{ContainerId: p.container}
	answer, err := n.runtime.ContainerStatus(ctx, request, grpc.WaitForReady(true))
	if err != nil {
		return "", err
	}
	status := answer.Status
	return fmt.Sprintf("%s %d %s", strings.TrimPrefix(status.State.String(), "CONTAINER_"), status.ExitCode, status.Reason), nil
}

func (n *node) remove(ctx context.Context, p *pod) (string, error) {
	if p.container != "" {
		stop := &runtime.StopContainerRequest{ContainerId: p.container}
		if _, err := n.runtime.StopContainer(ctx, stop, grpc.WaitForReady(true)); err != nil {
			return "", err
		}
		remove := &runtime.RemoveContainerRequest{ContainerId: p.container}
		if _, err := n.runtime.RemoveContainer(ctx, remove); err != nil {
			return "", err
		}
	}
	if p.sandbox != "" {
		stop := &runtime.StopPodSandboxRequest{PodSandboxId: p.sandbox}
		if _, err := n.runtime.StopPodSandbox(ctx, stop, grpc.WaitForReady(true)); err != nil {
			return "", err
		}
		remove := &runtime.RemovePodSandboxRequest{PodSandboxId: p.sandbox}
		if _, err := n.runtime.RemovePodSandbox(ctx, remove); err != nil {
			return "", err
		}
	}
	delete(n.pods, p.name)
	if err := os.Remove("/sys/fs/cgroup" + p.cgroup()); err != nil {
		return "", err
	}
	return "", n.classes()
}

// pairs reads "a=b,c=d".
func pairs(text string) map[string]string {
	result := map[string]string{}
	for _, pair := range strings.Split(text, ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			result[key] = value
		}
	}
	return result
}
