// The runtime's side of NRI, by upstream's own code, for tests of plug-ins.
//
// It keeps pods and containers as a runtime does, relays what standard input says (one JSON object a line: {"do": METHOD, "message":
// MESSAGE}) and answers each line with one on standard output: {"answer": MESSAGE} or {"error": WORDS}. Messages are NRI's, as protobuf's
// JSON. Lines with "event" come in between. It ends when standard input does.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

type command struct {
	Do      string
	Message json.RawMessage
}

// runtime is what a container runtime knows.
type runtime struct {
	sync.Mutex
	out        sync.Mutex
	nri        *adaptation.Adaptation
	pods       []*api.PodSandbox
	containers []*api.Container
	cpus       map[string]string
}

func (r *runtime) say(key string, value any) {
	line, err := json.Marshal(map[string]any{key: value})
	if err != nil {
		panic(err)
	}
	r.out.Lock()
	defer r.out.Unlock()
	fmt.Println(string(line))
}

func (r *runtime) synchronize(ctx context.Context, plugin adaptation.SyncCB) error {
	r.Lock()
	pods, containers := r.pods, r.containers
	r.Unlock()
	begun := time.Now()
	updates, err := plugin(ctx, pods, containers)
	if err != nil {
		r.say("event", map[string]any{"failed": err.Error()})
		return err
	}
	r.update(ctx, updates)
	r.say("event", map[string]any{"containers": len(containers), "microseconds": time.Since(begun).Microseconds()})
	return nil
}

// update sets CPUs, and answers with the updates of containers that it does not know.
func (r *runtime) update(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	r.Lock()
	defer r.Unlock()
	var failed []*api.ContainerUpdate
	for _, update := range updates {
		// Upstream answers an update with one of nothing for its container.
		if update == nil {
			continue
		}
		if _, known := r.cpus[update.ContainerId]; !known {
			failed = append(failed, update)
		} else if cpus := update.GetLinux().GetResources().GetCpu().GetCpus(); cpus != "" {
			r.cpus[update.ContainerId] = cpus
		}
	}
	return failed, nil
}

func (r *runtime) create(ctx context.Context, request *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
	answer, err := r.nri.CreateContainer(ctx, request)
	if err == nil {
		r.Lock()
		r.cpus[request.Container.Id] = answer.GetAdjust().GetLinux().GetResources().GetCpu().GetCpus()
		r.Unlock()
		r.update(ctx, answer.Update)
	}
	return answer, err
}

func (r *runtime) change(ctx context.Context, request *api.UpdateContainerRequest) (*api.UpdateContainerResponse, error) {
	answer, err := r.nri.UpdateContainer(ctx, request)
	if err == nil {
		r.update(ctx, answer.Update)
	}
	return answer, err
}

func (r *runtime) stop(ctx context.Context, request *api.StopContainerRequest) (*api.StopContainerResponse, error) {
	answer, err := r.nri.StopContainer(ctx, request)
	r.Lock()
	delete(r.cpus, request.Container.Id)
	r.Unlock()
	if err == nil {
		r.update(ctx, answer.Update)
	}
	return answer, err
}

func (r *runtime) populate(_ context.Context, all *api.SynchronizeRequest) error {
	r.Lock()
	defer r.Unlock()
	r.pods, r.containers = all.Pods, all.Containers
	for _, container := range all.Containers {
		r.cpus[container.Id] = container.GetLinux().GetResources().GetCpu().GetCpus()
	}
	return nil
}

// relay hands a message to call.
func relay[Q, A proto.Message](r *runtime, message json.RawMessage, request Q, call func(context.Context, Q) (A, error)) {
	if err := protojson.Unmarshal(message, request); err != nil {
		panic(err)
	}
	answer, err := call(context.Background(), request)
	if err != nil {
		r.say("error", err.Error())
		return
	}
	text, err := protojson.Marshal(answer)
	if err != nil {
		panic(err)
	}
	r.say("answer", json.RawMessage(text))
}

func event[Q proto.Message](r *runtime, message json.RawMessage, request Q, call func(context.Context, Q) error) {
	relay(r, message, request, func(ctx context.Context, request Q) (*api.Empty, error) {
		return &api.Empty{}, call(ctx, request)
	})
}

// messages are those that plug-ins see, by NRI's name.
var messages = map[string]proto.Message{
	"PodSandbox":                         &api.PodSandbox{},
	"Container":                          &api.Container{},
	"LinuxResources":                     &api.LinuxResources{},
	"ContainerAdjustment":                &api.ContainerAdjustment{},
	"ContainerUpdate":                    &api.ContainerUpdate{},
	"ConfigureRequest":                   &api.ConfigureRequest{},
	"ValidateContainerAdjustmentRequest": &api.ValidateContainerAdjustmentRequest{},
}

// value is one that no other field has.
func value(field protoreflect.FieldDescriptor, next *uint64, message func() protoreflect.Value) protoreflect.Value {
	*next++
	switch field.Kind() {
	case protoreflect.MessageKind:
		inner := message()
		fill(inner.Message(), next)
		return inner
	case protoreflect.EnumKind:
		values := field.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(values.Len() - 1).Number())
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(fmt.Sprintf("%s %d", field.Name(), *next))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(-int32(*next))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(-int64(*next))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(*next))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(1<<63 + *next)
	}
	panic("what is " + field.Kind().String())
}

// fill sets every field, and two elements of every list and map.
func fill(message protoreflect.Message, next *uint64) {
	fields := message.Descriptor().Fields()
	for at := range fields.Len() {
		field := fields.Get(at)
		switch {
		case field.IsMap():
			entries := message.Mutable(field).Map()
			for range 2 {
				key := value(field.MapKey(), next, nil)
				entries.Set(key.MapKey(), value(field.MapValue(), next, entries.NewValue))
			}
		case field.IsList():
			list := message.Mutable(field).List()
			list.Append(value(field, next, list.NewElement))
			list.Append(value(field, next, list.NewElement))
		default:
			message.Set(field, value(field, next, func() protoreflect.Value { return message.NewField(field) }))
		}
	}
}

func filled(name string) proto.Message {
	message, next := proto.Clone(messages[name]), uint64(0)
	fill(message.ProtoReflect(), &next)
	return message
}

// same says in what bytes differ from the filled message.
func same(name string, bytes []byte) string {
	message := proto.Clone(messages[name])
	if err := proto.Unmarshal(bytes, message); err != nil {
		return err.Error()
	}
	if proto.Equal(message, filled(name)) {
		return ""
	}
	return fmt.Sprintf("%v\nin place of\n%v", message, filled(name))
}

func (r *runtime) run(c command) {
	m := c.Message
	switch c.Do {
	case "Filled":
		bytes, err := proto.Marshal(filled(text(m)))
		if err != nil {
			panic(err)
		}
		r.say("answer", bytes)
	case "Same":
		var it struct {
			Name  string
			Bytes []byte
		}
		if err := json.Unmarshal(m, &it); err != nil {
			panic(err)
		}
		r.say("answer", same(it.Name, it.Bytes))
	case "Populate":
		event(r, m, &api.SynchronizeRequest{}, r.populate)
	case "Start":
		event(r, m, &api.Empty{}, func(context.Context, *api.Empty) error { return r.nri.Start() })
	case "Cpus":
		r.Lock()
		defer r.Unlock()
		r.say("answer", r.cpus)
	case "RunPodSandbox":
		event(r, m, &api.RunPodSandboxRequest{}, r.nri.RunPodSandbox)
	case "UpdatePodSandbox":
		relay(r, m, &api.UpdatePodSandboxRequest{}, r.nri.UpdatePodSandbox)
	case "PostUpdatePodSandbox":
		event(r, m, &api.PostUpdatePodSandboxRequest{}, r.nri.PostUpdatePodSandbox)
	case "StopPodSandbox":
		event(r, m, &api.StopPodSandboxRequest{}, r.nri.StopPodSandbox)
	case "RemovePodSandbox":
		event(r, m, &api.RemovePodSandboxRequest{}, r.nri.RemovePodSandbox)
	case "CreateContainer":
		relay(r, m, &api.CreateContainerRequest{}, r.create)
	case "PostCreateContainer":
		event(r, m, &api.PostCreateContainerRequest{}, r.nri.PostCreateContainer)
	case "StartContainer":
		event(r, m, &api.StartContainerRequest{}, r.nri.StartContainer)
	case "PostStartContainer":
		event(r, m, &api.PostStartContainerRequest{}, r.nri.PostStartContainer)
	case "UpdateContainer":
		relay(r, m, &api.UpdateContainerRequest{}, r.change)
	case "PostUpdateContainer":
		event(r, m, &api.PostUpdateContainerRequest{}, r.nri.PostUpdateContainer)
	case "StopContainer":
		relay(r, m, &api.StopContainerRequest{}, r.stop)
	case "RemoveContainer":
		event(r, m, &api.RemoveContainerRequest{}, r.nri.RemoveContainer)
	default:
		panic("what is " + c.Do)
	}
}

func text(message json.RawMessage) (words string) {
	if err := json.Unmarshal(message, &words); err != nil {
		panic(err)
	}
	return words
}

// Arguments: the socket, the folder of plug-ins that it starts itself, milliseconds that it waits for an answer.
func main() {
	limit, err := time.ParseDuration(os.Args[3] + "ms")
	if err != nil {
		panic(err)
	}
	adaptation.SetPluginRequestTimeout(limit)
	r := &runtime{cpus: map[string]string{}}
	r.nri, err = adaptation.New("upstream", "v1.2.3", r.synchronize, r.update,
		adaptation.WithSocketPath(os.Args[1]),
		adaptation.WithPluginPath(os.Args[2]),
		adaptation.WithPluginConfigPath(os.Args[2]))
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			panic(err)
		}
		r.run(c)
	}
	r.nri.Stop()
}
