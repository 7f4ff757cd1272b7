package agents

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"tokenfactory/factory"
	"tokenfactory/metrics"
)

// Clocks that agree this well are taken as equal: a report is under way for some
// of it.
const toleratedSkew = 2 * time.Second

// report takes in how a machine is, and answers what should run there.
func (in *Intake) report(w http.ResponseWriter, r *http.Request, received time.Time) (ReportResponse, error) {
	credential, err := bearer(r)
	if err != nil {
		return ReportResponse{}, err
	}
	var rep Report
	if err := read(w, r, &rep); err != nil {
		return ReportResponse{}, err
	}
	ctx := r.Context()
	node, err := nodeOf(ctx, in.Fleet, credential)
	if err != nil {
		return ReportResponse{}, err
	}
	if rep.SentAt.IsZero() {
		return ReportResponse{}, factory.Errorf(factory.Invalid, "The report does not say when it was sent.")
	}
	if err := checkSelf(rep.Address, rep.Version, rep.Hardware); err != nil {
		return ReportResponse{}, err
	}
	if err := otherMachine(node, rep.Hardware, received); err != nil {
		return ReportResponse{}, err
	}

	desired, err := in.Fleet.DesiredReplicas(ctx, node.ID)
	if err != nil {
		return ReportResponse{}, err
	}
	skew := rep.SentAt.Sub(received)
	batches, ack := unseen(rep.Batches, node.ReportSeq)
	buckets, err := in.buckets(ctx, node, rep.Hardware, desired, batches, skew, received)
	if err != nil {
		return ReportResponse{}, err
	}
	if err := in.Fleet.SaveReport(ctx, node.ID, factory.NodeReport{
		Address:    rep.Address,
		Version:    rep.Version,
		Hardware:   rep.Hardware,
		Skew:       skew,
		ReceivedAt: received,
		Replicas:   in.statuses(node, desired, rep.Replicas),
		PriorSeq:   node.ReportSeq,
		AckSeq:     ack,
	}, buckets); err != nil {
		return ReportResponse{}, err
	}
	if desired == nil {
		desired = []factory.ReplicaSpec{}
	}
	return ReportResponse{
		Protocol:   Protocol,
		ServerTime: in.Now(),
		AckSeq:     ack,
		Replicas:   desired,
		SpreadMS:   in.crowd.seen(node.ID, received).Milliseconds(),
		SeenFrom:   seenFrom(r),
	}, nil
}

// seenFrom is where a request comes from, or was said to by the proxy before us. It
// is told to the one who asked, and used for nothing else.
func seenFrom(r *http.Request) string {
	from := r.RemoteAddr
	if said := r.Header.Values("X-Forwarded-For"); len(said) > 0 {
		hops := strings.Split(said[len(said)-1], ",")
		from = strings.TrimSpace(hops[len(hops)-1])
	}
	if host, _, err := net.SplitHostPort(from); err == nil {
		from = host
	}
	if ip, err := netip.ParseAddr(from); err == nil {
		return ip.Unmap().WithZone("").String()
	}
	return ""
}

// otherMachine refuses a copy of a disk: a machine with none of the node's cards
// that reports under its credential while the node itself is well. Cards that were
// replaced took longer than a node needs to be silent.
func otherMachine(n factory.Node, h factory.Hardware, now time.Time) error {
	if len(n.Hardware.GPUs) == 0 || len(h.GPUs) == 0 || !n.Online(now) {
		return nil
	}
	for _, g := range h.GPUs {
		if slices.ContainsFunc(n.Hardware.GPUs, func(o factory.GPU) bool {
			return o.UUID == g.UUID || (o.ParentUUID != "" && o.ParentUUID == g.ParentUUID)
		}) {
			return nil
		}
	}
	return factory.Errorf(factory.Conflict, "Another machine, with other GPUs, reports as node %s (%s) of cluster %s: this agent's data folder or disk is a copy. "+
		"Give this machine an id of its own (systemd-machine-id-setup), an empty data folder and a new join token.", n.Name, n.Where(), n.ClusterName)
}

// unseen leaves out batches that are kept already, and says the newest number.
func unseen(batches []Batch, kept int64) (fresh []Batch, ack int64) {
	ack = kept
	for _, b := range batches {
		if b.Seq > kept {
			fresh = append(fresh, b)
			ack = max(ack, b.Seq)
		}
	}
	return fresh, ack
}

// buckets are the measurements to keep: those of the node's own GPUs and replicas, at
// our time.
func (in *Intake) buckets(ctx context.Context, n factory.Node, h factory.Hardware, desired []factory.ReplicaSpec, batches []Batch, skew time.Duration, now time.Time) ([]metrics.Bucket, error) {
	if len(batches) == 0 {
		return nil, nil
	}
	gpus := map[string]bool{}
	// A card that was just taken out was measured until then.
	for _, g := range slices.Concat(h.GPUs, n.Hardware.GPUs) {
		gpus[g.UUID] = true
	}
	deploymentOf := map[string]string{}
	for _, d := range desired {
		deploymentOf[d.ID] = d.DeploymentID
	}
	complete := false
	var out []metrics.Bucket
	dropped := 0
	var why string
	for _, batch := range batches {
		for _, b := range batch.Buckets {
			// A replica that is stopping is not wanted any more, and still measured.
			if _, known := deploymentOf[b.ReplicaID]; !known && !complete && !metrics.OfNode(b.Name) {
				all, err := in.Fleet.AllReplicas(ctx)
				if err != nil {
					return nil, err
				}
				for _, r := range all {
					if r.NodeID == n.ID {
						deploymentOf[r.ID] = r.DeploymentID
					}
				}
				complete = true
			}
			if skew.Abs() > toleratedSkew {
				b.Start = b.Start.Add(-skew).Truncate(max(b.Step, time.Second))
			}
			b.Start = b.Start.UTC()
			reason := foreign(b, deploymentOf)
			if metrics.OfNode(b.Name) {
				reason = notOfNode(b, n.ID, gpus)
			}
			if reason == "" {
				reason = unfit(b, now)
			}
			if reason != "" {
				dropped++
				why = reason
				continue
			}
			out = append(out, b)
		}
	}
	if dropped > 0 {
		in.Log.Warn("measurements were not kept", "node", n.Name, "count", dropped, "of", dropped+len(out), "last", why)
	}
	return out, nil
}

// foreign says why a bucket is none of the machine's replicas.
func foreign(b metrics.Bucket, deploymentOf map[string]string) string {
	if deployment, ours := deploymentOf[b.ReplicaID]; !ours || deployment != b.DeploymentID {
		return "replica " + b.ReplicaID + " of deployment " + b.DeploymentID + " is not one of this machine"
	}
	return ""
}

// notOfNode says why a bucket is none of the machine's GPUs.
func notOfNode(b metrics.Bucket, nodeID string, gpus map[string]bool) string {
	switch {
	case b.DeploymentID != nodeID:
		return "it is of the machine " + b.DeploymentID + ", which is another"
	case !gpus[b.ReplicaID]:
		return "the GPU " + b.ReplicaID + " is not one of this machine"
	}
	return ""
}

// unfit says why a bucket is not taken from an agent, whoever's it is. What the gateway
// measures only the gateway may say: people are judged and billed by it.
func unfit(b metrics.Bucket, now time.Time) string {
	oldest := metrics.Resolutions[len(metrics.Resolutions)-1].Keep
	m, known := metrics.Find(b.Name)
	switch {
	case !known || (m.Layer != metrics.InfrastructureLayer && m.Layer != metrics.NodeLayer):
		return "the metric " + string(b.Name) + " is none that agents measure"
	case b.TenantID != "" || b.KeyID != "":
		return "it says whose requests it is of, which only the gateway knows"
	case b.Start.After(now.Add(toleratedSkew)) || b.Start.Before(now.Add(-oldest)):
		return "its time " + b.Start.Format(time.RFC3339) + " cannot be: the machine's clock was set meanwhile"
	}
	if err := b.Check(); err != nil {
		return err.Error()
	}
	return ""
}

// What is shown of a replica is bounded here: agents bound it too, but only ours do.
const (
	maxLines  = 20
	maxLine   = 1000 // bytes
	maxReason = 2000 // bytes
)

func (in *Intake) statuses(n factory.Node, desired []factory.ReplicaSpec, said []factory.ReplicaStatus) []factory.ReplicaStatus {
	revision := map[string]int{}
	for _, d := range desired {
		revision[d.ID] = d.Revision
	}
	out := make([]factory.ReplicaStatus, 0, len(said))
	for _, s := range said {
		switch s.State {
		case factory.Pending, factory.Starting, factory.Loading, factory.Ready, factory.Failed, factory.Stopping, factory.Stopped:
		default:
			in.Log.Warn("a replica has a state that is not known here", "node", n.Name, "replica", s.ID, "state", s.State)
			continue
		}
		// That the old revision serves says nothing about the new one, which its agent
		// has not heard of yet: nobody may be sent there, nor the next replica changed.
		if want, wanted := revision[s.ID]; wanted && s.Revision != want && (s.State == factory.Ready || s.State == factory.Loading) {
			s.State, s.Reason, s.ReadyAt = factory.Starting, "Starting anew with the changed settings.", nil
		}
		if s.URL != "" {
			if u, err := url.Parse(s.URL); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https" && !ownTunnel(u, n.ID, s.ID)) {
				in.Log.Warn("a replica has an address that cannot be used", "node", n.Name, "replica", s.ID)
				s.URL = ""
			}
		}
		s.Reason = clip(s.Reason, maxReason)
		s.Progress = clip(s.Progress, maxReason)
		s.ServedName = clip(s.ServedName, maxReason)
		s.LastLines = slices.Clone(s.LastLines[max(0, len(s.LastLines)-maxLines):])
		for i, line := range s.LastLines {
			s.LastLines[i] = clip(line, maxLine)
		}
		out = append(out, s)
	}
	return out
}

// clip cuts text to a length without leaving half a character; text columns take
// neither that nor a zero byte.
func clip(text string, most int) string {
	if len(text) > most {
		text = text[:most]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
}
