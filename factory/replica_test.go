package factory_test

import (
	"strings"
	"testing"

	"tokenfactory/factory"
)

func TestStatusOfADeploymentThatHoldsNoMachine(t *testing.T) {
	serving := factory.Replica{State: factory.Ready}
	ending := factory.Replica{State: factory.Ready, Stopping: true}
	for _, c := range []struct {
		asleep, stopped bool
		replicas        []factory.Replica
		state           factory.State
		reason          string
	}{
		{true, false, nil, factory.Asleep, "next request wakes it"},
		{true, false, []factory.Replica{serving}, factory.Stopping, "1 replica to stop"},
		{true, false, []factory.Replica{ending, ending}, factory.Stopping, "2 replicas to stop"},
		{true, true, nil, factory.Stopped, "Start it"},
		{false, true, []factory.Replica{ending}, factory.Stopping, "1 replica to stop"},
		{false, false, []factory.Replica{ending}, factory.Stopping, "before new ones start"},
		{false, false, nil, factory.Pending, "Waiting"},
		{false, false, []factory.Replica{serving, ending}, factory.Ready, "1 replica serving"},
	} {
		d := factory.Deployment{Asleep: c.asleep, Stopped: c.stopped}
		d.Replicas = 1
		if state, reason := d.Status(c.replicas, nil); state != c.state || !strings.Contains(reason, c.reason) {
			t.Errorf("asleep %v, stopped %v, %d replicas: %s, %s", c.asleep, c.stopped, len(c.replicas), state, reason)
		}
	}
}
