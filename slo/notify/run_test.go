package notify

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"tokenfactory/factory"
)

func slackChannel() factory.Channel {
	return factory.Channel{ID: "s", Name: "s", Kind: factory.ChannelSlack, Settings: factory.ChannelSettings{URL: "slack://hook:a-b-c@webhook"}}
}

func TestRunLooksWhenPokedAndByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(slackChannel())
		s := newSender(m)
		s.Courier = func(context.Context, factory.Channel, Message) error { return nil }
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		synctest.Wait()

		poked := m.tell("s", "a", factory.ChangeFiring)
		s.Poke()
		synctest.Wait() // no time passes
		if m.row(poked).State != factory.DeliveryDone {
			t.Error("a poke makes it look at some later time")
		}
		quiet := m.tell("s", "b", factory.ChangeFiring)
		time.Sleep(lookEvery) // of the bubble's clock
		synctest.Wait()
		if m.row(quiet).State != factory.DeliveryDone {
			t.Error("without a poke nothing is delivered")
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// What is under way when we are stopped is finished and written down, and nothing new
// begins.
func TestStopFinishesWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(slackChannel())
		under, next := m.tell("s", "a", factory.ChangeFiring), m.tell("s", "b", factory.ChangeFiring)
		s := newSender(m)
		release := make(chan struct{})
		s.Courier = func(context.Context, factory.Channel, Message) error { <-release; return nil }
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		synctest.Wait()
		stop()
		synctest.Wait()
		close(release)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if m.row(under).State != factory.DeliveryDone {
			t.Error("what was under way is not written down, and would be told again")
		}
		if m.row(next).Attempts != 0 {
			t.Error("something new was begun after the stop")
		}
	})
}

func TestCourierThatHangsIsGivenUpOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(slackChannel())
		id := m.tell("s", "a", factory.ChangeFiring)
		s := newSender(m)
		release := make(chan struct{})
		s.Courier = func(context.Context, factory.Channel, Message) error { <-release; return nil }
		round(t, s)
		if d := m.row(id); d.State != factory.DeliveryWaiting || d.Answer != "The receiver did not answer in time." {
			t.Errorf("%s: %q", d.State, d.Answer)
		}
		close(release)
	})
}
