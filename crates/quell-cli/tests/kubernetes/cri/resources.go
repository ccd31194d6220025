package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/manager"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The kubelet's.
const period = 100_000

// resources are a container's: thousandths of a CPU, and bytes of its limit.
type resources struct{ requests, limits, memory int64 }

// read takes them from options, quantities like 1 or 750m; without requests they are the limits.
func read(options map[string]string) (resources, error) {
	var r resources
	for key, value := range map[string]*int64{"requests": &r.requests, "limits": &r.limits} {
		text, ok := options[key]
		if !ok {
			continue
		}
		number, factor := text, int64(1000)
		if strings.HasSuffix(text, "m") {
			number, factor = strings.TrimSuffix(text, "m"), 1
		}
		parsed, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return r, fmt.Errorf("%s=%s: %w", key, text, err)
		}
		*value = parsed * factor
	}
	if text, ok := options["memory"]; ok {
		mebibytes, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return r, fmt.Errorf("memory=%s: %w", text, err)
		}
		r.memory = mebibytes << 20
	}
	if r.requests == 0 {
		r.requests = r.limits
	}
	return r, nil
}

// class is the pod's quality of service, as the folder of its cgroup. A memory limit stands for its request, too.
func (r resources) class() string {
	switch {
	case r.requests == 0 && r.memory == 0:
		return "/besteffort"
	case r.requests == r.limits && r.memory != 0:
		return ""
	}
	return "/burstable"
}

func (r resources) shares() int64 { return max(2, r.requests*1024/1000) }

func (r resources) quota() int64 {
	if r.limits == 0 {
		return 0
	}
	return max(1000, r.limits*period/1000)
}

func (r resources) pod() *runtime.LinuxContainerResources {
	return &runtime.LinuxContainerResources{CpuPeriod: period, CpuShares: r.shares(), CpuQuota: r.quota()}
}

func (r resources) container() *runtime.LinuxContainerResources {
	score := map[string]int64{"/besteffort": 1000, "/burstable": 900, "": -997}[r.class()]
	linux := r.pod()
	linux.OomScoreAdj, linux.MemoryLimitInBytes = score, r.memory
	return linux
}

func (p *pod) cgroup() string { return "/kubepods" + p.resources.class() + "/pod" + p.uid }

// group makes or changes the pod's cgroup.
func (n *node) group(p *pod) error {
	if err := n.classes(); err != nil {
		return err
	}
	r := &cgroups.Resources{SkipDevices: true, Memory: p.resources.memory}
	r.CpuWeight = cgroups.ConvertCPUSharesToCgroupV2Value(uint64(p.resources.shares()))
	if quota := p.resources.quota(); quota != 0 {
		r.CpuQuota, r.CpuPeriod = quota, period
	}
	return set(p.cgroup(), r)
}

// classes makes the cgroups above those of pods; the weight of the burstable one is what its pods request.
func (n *node) classes() error {
	var burstable int64
	for _, p := range n.pods {
		if p.resources.class() == "/burstable" {
			burstable += p.resources.requests * 1024 / 1000
		}
	}
	allocatable := int64(cpus()) * 1024
	for path, shares := range map[string]int64{"/kubepods": allocatable, "/kubepods/besteffort": 2, "/kubepods/burstable": max(2, burstable)} {
		weight := cgroups.ConvertCPUSharesToCgroupV2Value(uint64(shares))
		if err := set(path, &cgroups.Resources{SkipDevices: true, CpuWeight: weight}); err != nil {
			return err
		}
	}
	return nil
}

func set(path string, r *cgroups.Resources) error {
	group, err := manager.New(&cgroups.Cgroup{Path: path, Resources: r})
	if err != nil {
		return err
	}
	if err := group.Apply(-1); err != nil {
		return err
	}
	return group.Set(r)
}

// cpus is how many the node has; goroutines may run on fewer.
func cpus() int {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return 1
	}
	_, last, ok := strings.Cut(strings.TrimSpace(string(text)), "-")
	number, err := strconv.Atoi(last)
	if !ok || err != nil {
		return 1
	}
	return number + 1
}
