package notify

import (
	"fmt"
	"testing"
	"time"

	"tokenfactory/factory"
)

// DA-07: fifteen alerts reach R1 and not R2, the control plane restarts, ten alerts are
// over by then.
func TestDA07RestartRepeatsAndLosesNothing(t *testing.T) {
	r1, r2 := newReceiver(t, 200), newReceiver(t, 500)
	m := newMemory(hook("r1", r1.URL), hook("r2", r2.URL))
	for i := range 15 {
		m.tell("r1", fmt.Sprint("a", i), factory.ChangeFiring)
		m.tell("r2", fmt.Sprint("a", i), factory.ChangeFiring)
	}
	round(t, newSender(m))
	if got := changes(t, r1.take()); len(got) != 15 {
		t.Fatalf("before the restart R1 heard %v", got)
	}
	if got := r2.take(); len(got) != 1 {
		t.Fatalf("a receiver that fails was tried %d times at once, want 1", len(got))
	}

	after := newSender(m)
	r2.answers(200)
	for i := range 10 {
		m.tell("r1", fmt.Sprint("a", i), factory.ChangeResolved)
		m.tell("r2", fmt.Sprint("a", i), factory.ChangeResolved)
	}
	for range 5 {
		round(t, after)
		m.pass(30 * time.Second)
	}
	got := changes(t, r1.take())
	for i := range 10 {
		if got[fmt.Sprint("a", i, " resolved")] != 1 {
			t.Errorf("R1 heard %d times that alert %d is resolved", got[fmt.Sprint("a", i, " resolved")], i)
		}
	}
	if len(got) != 10 {
		t.Errorf("R1 heard more than the ten that are over: %v", got)
	}
	got = changes(t, r2.take())
	for i := range 15 {
		if got[fmt.Sprint("a", i, " firing")] != 1 {
			t.Errorf("R2 heard %d times that alert %d is firing", got[fmt.Sprint("a", i, " firing")], i)
		}
	}
	if len(got) != 25 {
		t.Errorf("R2 heard %d different messages, want the 15 missed and the 10 new: %v", len(got), got)
	}
}

// A message that arrived is not told again because the store was away for a moment.
func TestStoreAwayAfterDelivery(t *testing.T) {
	r := newReceiver(t, 200)
	m := newMemory(hook("r", r.URL))
	id := m.tell("r", "a", factory.ChangeFiring)
	m.refuse = 1
	s := newSender(m)
	round(t, s)
	round(t, s)
	if n := len(r.take()); n != 1 || m.row(id).State != factory.DeliveryDone {
		t.Errorf("the receiver heard %d times, and the delivery is %s", n, m.row(id).State)
	}
}
