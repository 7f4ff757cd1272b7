package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// fleet keeps in memory what the store would.
type memoryFleet struct {
	node     factory.Node
	desired  []factory.ReplicaSpec
	replicas []factory.Replica
	refusal  error

	redeemed factory.Node
	reports  []factory.NodeReport
	buckets  []metrics.Bucket
}

func (f *memoryFleet) RedeemJoinToken(_ context.Context, hash string, n factory.Node, now time.Time) (factory.Node, error) {
	if f.refusal != nil {
		return factory.Node{}, f.refusal
	}
	f.redeemed = n
	n.ClusterName = "rack"
	return n, nil
}

func (f *memoryFleet) NodeByCredential(_ context.Context, hash string) (factory.Node, error) {
	if hash != f.node.CredentialHash {
		return factory.Node{}, factory.Errorf(factory.NotFound, "none")
	}
	return f.node, nil
}

func (f *memoryFleet) DesiredReplicas(context.Context, string) ([]factory.ReplicaSpec, error) {
	return f.desired, nil
}

func (f *memoryFleet) AllReplicas(context.Context) ([]factory.Replica, error) { return f.replicas, nil }

func (f *memoryFleet) SaveReport(_ context.Context, id string, r factory.NodeReport, b []metrics.Bucket) error {
	if f.refusal != nil {
		return f.refusal
	}
	f.node.LastSeenAt, f.node.Skew, f.node.ReportSeq, f.node.Hardware = r.ReceivedAt, r.Skew, r.AckSeq, r.Hardware
	f.reports = append(f.reports, r)
	f.buckets = append(f.buckets, b...)
	return nil
}

const credential = "tfa-credential"

// desk is an intake whose fleet has one node, n, and whose clock stands at noon.
func desk() (*Intake, *memoryFleet) {
	f := &memoryFleet{
		node:    factory.Node{ID: "n", Name: "spark", ClusterName: "desk", Address: "192.0.2.96", CredentialHash: factory.HashSecret(credential), LastSeenAt: noon},
		desired: []factory.ReplicaSpec{{ID: "r", DeploymentID: "d", Revision: 1}},
	}
	return &Intake{Fleet: f, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }}, f
}

func send(t *testing.T, in http.Handler, path, bearer string, body any) (int, []byte) {
	t.Helper()
	b, isText := body.(string)
	if !isText {
		j, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		b = string(j)
	}
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(b))
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	w := httptest.NewRecorder()
	in.ServeHTTP(w, r)
	return w.Code, w.Body.Bytes()
}

func aJoin() JoinRequest {
	return JoinRequest{Protocol: Protocol, Token: "tfj-token", Identity: "machine", Version: "1.0", Runtime: "process", Address: "192.0.2.96",
		Hardware: factory.Hardware{Hostname: "spark", Arch: "arm64"}}
}

func aReport() Report {
	return Report{Protocol: Protocol, SentAt: noon, Version: "1.0", Address: "192.0.2.96", Hardware: factory.Hardware{Hostname: "spark"}}
}

func gauge(start time.Time) metrics.Bucket {
	return metrics.Bucket{DeploymentID: "d", ReplicaID: "r", Name: metrics.KVCache, Step: 10 * time.Second, Start: start, Count: 1, Sum: 0.5, Max: 0.5}
}

func TestJoiningGivesACredentialOfWhichOnlyTheHashIsKept(t *testing.T) {
	in, f := desk()
	status, body := send(t, in, PathJoin, "", aJoin())
	var got JoinResponse
	if err := json.Unmarshal(body, &got); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if got.NodeID == "" || got.Cluster != "rack" || !strings.HasPrefix(got.Credential, factory.PrefixAgent) {
		t.Errorf("%+v", got)
	}
	if f.redeemed.CredentialHash != factory.HashSecret(got.Credential) || f.redeemed.Identity != "machine" || f.redeemed.Name != "spark" {
		t.Errorf("%+v", f.redeemed)
	}
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	token := func(change func(j *JoinRequest)) JoinRequest { j := aJoin(); change(&j); return j }
	report := func(change func(r *Report)) Report { r := aReport(); change(&r); return r }
	for what, c := range map[string]struct {
		path, bearer string
		body         any
		status       int
		says         string
	}{
		"no JSON":         {PathJoin, "", "{", 400, "not the JSON of an agent"},
		"no protocol":     {PathJoin, "", "{}", 400, "protocol version"},
		"newer protocol":  {PathJoin, "", `{"protocol":7,"token":[1]}`, 426, "version 7 and this server speaks version 1. Update the server"},
		"older protocol":  {PathReport, credential, `{"protocol":0}`, 426, "version 0 and this server speaks version 1. Update the agent"},
		"no token":        {PathJoin, "", token(func(j *JoinRequest) { j.Token = "" }), 401, "--token"},
		"no identity":     {PathJoin, "", token(func(j *JoinRequest) { j.Identity = "" }), 400, "which machine"},
		"odd runtime":     {PathJoin, "", token(func(j *JoinRequest) { j.Runtime = "magic" }), 400, "process, container and kubernetes"},
		"odd address":     {PathJoin, "", token(func(j *JoinRequest) { j.Address = "http://x/" }), 400, "--advertise"},
		"odd host name":   {PathJoin, "", token(func(j *JoinRequest) { j.Hardware.Hostname = "a\x00b" }), 400, "host name"},
		"equal UUIDs":     {PathJoin, "", token(func(j *JoinRequest) { j.Hardware.GPUs = []factory.GPU{{UUID: "u"}, {UUID: "u"}} }), 400, "UUID"},
		"no credential":   {PathReport, "", aReport(), 401, "Join with a token"},
		"bad credential":  {PathReport, "tfa-other", aReport(), 401, "not known here"},
		"no time":         {PathReport, credential, report(func(r *Report) { r.SentAt = time.Time{} }), 400, "when it was sent"},
		"another address": {"/agent/v1/other", credential, aReport(), 404, PathReport},
		"too large":       {PathReport, credential, `{"protocol":1,"x":"` + strings.Repeat("y", maxBody) + `"}`, 413, "4 MiB"},
	} {
		in, f := desk()
		status, body := send(t, in, c.path, c.bearer, c.body)
		var p Problem
		if err := json.Unmarshal(body, &p); err != nil || status != c.status || !strings.Contains(p.Message, c.says) || p.Kind == "" {
			t.Errorf("%s: %d %s; want %d with %q", what, status, body, c.status, c.says)
		}
		if len(f.reports) != 0 || f.redeemed.ID != "" {
			t.Errorf("%s: something was kept", what)
		}
	}
	in, _ := desk()
	w := httptest.NewRecorder()
	in.ServeHTTP(w, httptest.NewRequest(http.MethodGet, PathReport, nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != http.MethodPost {
		t.Errorf("GET: %d", w.Code)
	}
}

func TestTheStoresRefusalOfATokenReachesTheAgent(t *testing.T) {
	in, f := desk()
	f.refusal = factory.Errorf(factory.Unauthenticated, "This join token expired.")
	if status, body := send(t, in, PathJoin, "", aJoin()); status != http.StatusUnauthorized || !bytes.Contains(body, []byte("expired")) {
		t.Errorf("%d %s", status, body)
	}
	f.refusal = context.DeadlineExceeded
	if status, body := send(t, in, PathReport, credential, aReport()); status != 500 || bytes.Contains(body, []byte("deadline")) {
		t.Errorf("%d %s", status, body)
	}
}

func TestAReportAnswersWhatShouldRun(t *testing.T) {
	in, f := desk()
	rep := aReport()
	rep.Replicas = []factory.ReplicaStatus{
		{ID: "r", Revision: 1, State: factory.Ready, URL: "http://192.0.2.96:1", LastLines: slices.Repeat([]string{strings.Repeat("é", 2000) + "\x00"}, 50)},
		{ID: "odd", State: "levitating"},
		{ID: "nowhere", State: factory.Ready, URL: "file:///etc/passwd"},
	}
	status, body := send(t, in, PathReport, credential, rep)
	var got ReportResponse
	if err := json.Unmarshal(body, &got); err != nil || status != http.StatusOK || len(got.Replicas) != 1 || got.Protocol != Protocol || got.SpreadMS < 1000 {
		t.Fatalf("%d %s", status, body)
	}
	kept := f.reports[0].Replicas
	if len(kept) != 2 || kept[0].State != factory.Ready || kept[0].URL == "" || kept[1].URL != "" {
		t.Errorf("%+v", kept)
	}
	if n := len(kept[0].LastLines); n != maxLines || len(kept[0].LastLines[0]) > maxLine || strings.Contains(kept[0].LastLines[0], "\x00") {
		t.Errorf("%d lines of %d bytes", n, len(kept[0].LastLines[0]))
	}
	f.desired = nil
	if _, body := send(t, in, PathReport, credential, rep); !bytes.Contains(body, []byte(`"replicas":[]`)) {
		t.Errorf("nothing to run is %s", body)
	}
}

func TestAnOldRevisionThatServesIsNotTheNewOne(t *testing.T) {
	in, f := desk()
	f.desired[0].Revision = 2
	for said, want := range map[factory.State]factory.State{
		factory.Ready: factory.Starting, factory.Loading: factory.Starting, factory.Failed: factory.Failed, factory.Stopping: factory.Stopping,
	} {
		for revision, want := range map[int]factory.State{1: want, 2: said} {
			rep := aReport()
			rep.Replicas = []factory.ReplicaStatus{{ID: "r", Revision: revision, State: said, Reason: "x"}}
			send(t, in, PathReport, credential, rep)
			if got := f.reports[len(f.reports)-1].Replicas[0]; got.State != want || got.Reason == "" {
				t.Errorf("revision %d is %s: kept as %+v", revision, said, got)
			}
		}
	}
}

func TestMeasurementsAreTakenInOnce(t *testing.T) {
	in, f := desk()
	rep := aReport()
	rep.Batches = []Batch{{Seq: 1, Buckets: []metrics.Bucket{gauge(noon)}}, {Seq: 2, Buckets: []metrics.Bucket{gauge(noon)}}}
	for range 3 { // the answer to the first two was lost
		if status, body := send(t, in, PathReport, credential, rep); status != http.StatusOK || !bytes.Contains(body, []byte(`"ack_seq":2`)) {
			t.Fatalf("%d %s", status, body)
		}
	}
	rep.Batches = append(rep.Batches, Batch{Seq: 3, Buckets: []metrics.Bucket{gauge(noon)}})
	send(t, in, PathReport, credential, rep)
	if len(f.buckets) != 3 || f.node.ReportSeq != 3 {
		t.Errorf("%d buckets kept, number %d", len(f.buckets), f.node.ReportSeq)
	}
	if r := f.reports[3]; r.PriorSeq != 2 || r.AckSeq != 3 {
		t.Errorf("%+v", r)
	}
}

func TestOnlyMeasurementsOfTheMachinesOwnReplicasAreKept(t *testing.T) {
	in, f := desk()
	f.replicas = []factory.Replica{{ID: "ending", DeploymentID: "d", NodeID: "n", Stopping: true}, {ID: "theirs", DeploymentID: "d", NodeID: "other"}}
	with := func(change func(b *metrics.Bucket)) metrics.Bucket { b := gauge(noon); change(&b); return b }
	rep := aReport()
	rep.Batches = []Batch{{Seq: 1, Buckets: []metrics.Bucket{
		gauge(noon),
		with(func(b *metrics.Bucket) { b.ReplicaID = "ending" }),
		with(func(b *metrics.Bucket) { b.ReplicaID = "theirs" }),
		with(func(b *metrics.Bucket) { b.ReplicaID = "invented" }),
		with(func(b *metrics.Bucket) { b.DeploymentID = "other" }),
		with(func(b *metrics.Bucket) { b.Count = 0 }),
		with(func(b *metrics.Bucket) { b.Step = 0 }),
		with(func(b *metrics.Bucket) { b.Start = noon.Add(time.Hour) }),
		with(func(b *metrics.Bucket) { b.Start = time.Unix(0, 0) }),
	}}}
	if status, body := send(t, in, PathReport, credential, rep); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if len(f.buckets) != 2 || f.buckets[0].ReplicaID != "r" || f.buckets[1].ReplicaID != "ending" {
		t.Errorf("%+v", f.buckets)
	}
}

func TestOnlyMeasurementsThatAgentsMakeAreKept(t *testing.T) {
	in, f := desk()
	rep := aReport()
	histogram := metrics.Histogram{Bounds: []float64{300, 500}, Counts: []float64{1, 2}, Sum: 700, Count: 2}
	sketch := metrics.NewSketch()
	if err := sketch.Add(5, 1); err != nil {
		t.Fatal(err)
	}
	as := func(name metrics.Name, encoded []byte) metrics.Bucket {
		b := gauge(noon)
		b.Name, b.Sketch = name, encoded
		return b
	}
	key := gauge(noon)
	key.TenantID, key.KeyID = "t", "k"
	rep.Batches = []Batch{{Seq: 1, Buckets: []metrics.Bucket{
		as(metrics.Preemptions, nil),
		as(metrics.EngineTTFT, histogram.Encode()),
		as(metrics.Good, nil),
		as(metrics.Requests, nil),
		as(metrics.InFlight, nil),
		as(metrics.TTFT, sketch.Encode()),
		as("made_up", nil),
		as(metrics.EngineTTFT, histogram.Encode()[:9]),
		key,
	}}}
	if status, body := send(t, in, PathReport, credential, rep); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if len(f.buckets) != 2 || f.buckets[0].Name != metrics.Preemptions || f.buckets[1].Name != metrics.EngineTTFT {
		t.Errorf("%+v", f.buckets)
	}
}

func TestAMachinesGPUsAreKeptUnderItsOwnName(t *testing.T) {
	in, f := desk()
	f.node.Hardware.GPUs = []factory.GPU{{UUID: "GPU-a"}, {UUID: "GPU-out"}}
	rep := aReport()
	rep.Hardware.GPUs = []factory.GPU{{UUID: "GPU-a"}}
	of := func(node, gpu string, name metrics.Name) metrics.Bucket {
		b := gauge(noon)
		b.DeploymentID, b.ReplicaID, b.Name = node, gpu, name
		return b
	}
	rep.Batches = []Batch{{Seq: 1, Buckets: []metrics.Bucket{
		of("n", "GPU-a", metrics.GPUTemperature),
		of("n", "GPU-out", metrics.GPUClock), // from before it was taken out
		of("other", "GPU-a", metrics.GPUTemperature),
		of("n", "GPU-b", metrics.GPUTemperature),
		of("d", "r", metrics.GPUTemperature),
		of("n", "r", metrics.GPUTemperature),
		of("n", "GPU-a", metrics.KVCache),
	}}}
	if status, body := send(t, in, PathReport, credential, rep); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if len(f.buckets) != 2 || f.buckets[0].Name != metrics.GPUTemperature || f.buckets[1].ReplicaID != "GPU-out" {
		t.Errorf("%+v", f.buckets)
	}
}

// An agent whose clock is 600 s behind stays online, and what it measures is kept at our time.
func TestAI04AgentClockBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, f := desk()
		in.Now = time.Now
		f.node.LastSeenAt = time.Now()
		const behind = 600 * time.Second
		for beat := range 60 {
			sent := time.Now().Add(-behind)
			rep := aReport()
			rep.SentAt = sent
			rep.Batches = []Batch{{Seq: int64(beat + 1), Buckets: []metrics.Bucket{gauge(sent.Truncate(10 * time.Second))}}}
			if status, body := send(t, in, PathReport, credential, rep); status != http.StatusOK {
				t.Fatalf("%d %s", status, body)
			}
			if skew := f.node.Skew; (skew + behind).Abs() > 2*time.Second {
				t.Errorf("beat %d: skew %s", beat, skew)
			}
			kept := f.buckets[len(f.buckets)-1].Start
			if age := time.Since(kept); age < 0 || age > 10*time.Second || !kept.Equal(kept.Truncate(10*time.Second)) {
				t.Errorf("beat %d: kept at %s", beat, kept)
			}
			time.Sleep(10 * time.Second)
			if !f.node.Online(time.Now()) || time.Since(f.node.LastSeenAt) > 15*time.Second {
				t.Errorf("beat %d: last seen at %s", beat, f.node.LastSeenAt)
			}
		}
		if len(f.buckets) != 60 {
			t.Errorf("%d of 60 samples kept", len(f.buckets))
		}
	})
}

// A copy of a machine's disk reports with its credential: the machine's record stays.
func TestAI03TwoNodesWithOneName(t *testing.T) {
	in, f := desk()
	f.node.Hardware.GPUs = []factory.GPU{{UUID: "GPU-a"}}
	copied := aReport()
	copied.Address = "192.0.2.93"
	copied.Hardware.GPUs = []factory.GPU{{UUID: "GPU-b"}}
	status, body := send(t, in, PathReport, credential, copied)
	if status != http.StatusConflict || !bytes.Contains(body, []byte("spark (192.0.2.96)")) || len(f.reports) != 0 {
		t.Errorf("%d %s", status, body)
	}
	own := aReport()
	own.Hardware.GPUs = []factory.GPU{{UUID: "GPU-a"}, {UUID: "GPU-c"}} // one was added
	if status, body := send(t, in, PathReport, credential, own); status != http.StatusOK {
		t.Errorf("the machine itself: %d %s", status, body)
	}
	// Cards are replaced in a machine that is switched off.
	f.node.LastSeenAt = noon.Add(-time.Hour)
	if status, body := send(t, in, PathReport, credential, copied); status != http.StatusOK {
		t.Errorf("with new cards: %d %s", status, body)
	}
}

func TestAgentsAreSpreadByHowManyThereAre(t *testing.T) {
	var c crowd
	if d := c.seen("first", noon); d != minSpread {
		t.Errorf("one agent: %s", d)
	}
	var d time.Duration
	for i := range 200 {
		d = c.seen(string(rune('a'+i)), noon)
	}
	if d < 10*time.Second || d > 20*time.Second {
		t.Errorf("200 agents: %s", d)
	}
	if d := c.seen("first", noon.Add(time.Hour)); d != minSpread {
		t.Errorf("after an hour without the others: %s", d)
	}
}
