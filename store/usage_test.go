package store_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

func request(id string, at time.Time, prompt, completion int64) factory.Usage {
	return factory.Usage{ID: id, TenantID: "t1", KeyID: "k1", DeploymentID: "d1", ReplicaID: "r1", PriceID: "price-d1", Endpoint: "chat.completions",
		ModelAsked: "public/small", ModelServed: "public/small", Status: 200, Stream: true, Attempts: 1,
		PromptTokens: prompt, CompletionTokens: completion, StartedAt: at}
}

func sums(t *testing.T, s *store.Store, tenant string, from, to time.Time) (total factory.Tokens) {
	t.Helper()
	for _, x := range must[[]store.UsageSum](t)(s.UsageSums(t.Context(), tenant, from, to)) {
		total.Requests += x.Requests
		total.PromptTokens += x.PromptTokens
		total.CachedTokens += x.CachedTokens
		total.CompletionTokens += x.CompletionTokens
	}
	return total
}

func TestMB07ABatchDeliveredTwiceCountsOnce(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		batch := []factory.Usage{request("r1", start, 10, 5), request("r2", start.Add(time.Second), 20, 7)}
		ok(t, s.AppendUsage(ctx, batch))
		ok(t, s.AppendUsage(ctx, batch))
		// And half of it together with something new, and twice in one batch.
		ok(t, s.AppendUsage(ctx, []factory.Usage{batch[1], batch[0], batch[1]}))
		rows, _, err := s.UsageRows(ctx, store.UsageFilter{TenantID: "t1"})
		ok(t, err)
		if want := []factory.Usage{batch[1], batch[0]}; !reflect.DeepEqual(rows, want) {
			t.Errorf("rows %+v", rows)
		}
		if got, want := sums(t, s, "t1", start, start.Add(24*time.Hour)), (factory.Tokens{Requests: 2, PromptTokens: 30, CompletionTokens: 12}); got != want {
			t.Errorf("sums %+v, want %+v", got, want)
		}
	})
}

func TestTheLedgerKeepsEveryField(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		queue, ttft, e2e := 0.25, 81.5, 1234.75
		u := factory.Usage{ID: "r1", TenantID: "gone", KeyID: "gone", DeploymentID: "gone", ReplicaID: "gone", PriceID: "gone", Endpoint: "embeddings",
			ModelAsked: "a", ModelServed: "b", Status: 499, Flags: "aborted,estimated", Stream: true, Attempts: 2, PromptTokens: 1, CachedTokens: 2, CompletionTokens: 3,
			StartedAt: start.Add(time.Microsecond), QueueMS: &queue, TTFTMS: &ttft, E2EMS: &e2e}
		none := request("r2", start, 0, 0)
		none.Stream = false
		ok(t, s.AppendUsage(t.Context(), []factory.Usage{u, none}))
		rows, next, err := s.UsageRows(t.Context(), store.UsageFilter{})
		ok(t, err)
		if next != "" || !reflect.DeepEqual(rows, []factory.Usage{u, none}) {
			t.Errorf("got %+v, next %q", rows, next)
		}
	})
}

// traffic is many requests of several tenants, keys and deployments with every flag.
func traffic(rnd *rand.Rand, n int) []factory.Usage {
	flags := []string{"", "", "", "aborted", "aborted,estimated", "estimated", "aborted_queue", "aborted_prefill", "failed", "truncated"}
	var out []factory.Usage
	for i := range n {
		u := request(fmt.Sprintf("%08x-%d", rnd.Uint32(), i), start.Add(time.Duration(rnd.Int64N(int64(3*time.Hour)))).Truncate(time.Microsecond), rnd.Int64N(5000), rnd.Int64N(900))
		tenant := rnd.IntN(3)
		u.TenantID, u.KeyID = fmt.Sprintf("t%d", tenant), fmt.Sprintf("k%d%d", tenant, rnd.IntN(2))
		u.DeploymentID, u.PriceID = fmt.Sprintf("d%d", rnd.IntN(2)), fmt.Sprintf("p%d", rnd.IntN(2))
		u.CachedTokens, u.Flags = rnd.Int64N(u.PromptTokens+1), flags[rnd.IntN(len(flags))]
		out = append(out, u)
	}
	return out
}

func TestRollUpsAddUpToTheLedger(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		rnd := rand.New(rand.NewPCG(3, 4))
		rows := traffic(rnd, 1500)
		// Several writers, overlapping batches in any order: as gateways that try again.
		var wg sync.WaitGroup
		for g := range 4 {
			batch := slices.Clone(rows[:(g+1)*len(rows)/4])
			rnd.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
			wg.Go(func() {
				for part := range slices.Chunk(batch, 333) {
					if err := s.AppendUsage(t.Context(), part); err != nil {
						t.Errorf("append: %v", err)
					}
				}
			})
		}
		wg.Wait()
		whole := func(from, to time.Time) bool {
			return from.Equal(from.Truncate(15*time.Minute)) && to.Equal(to.Truncate(15*time.Minute))
		}
		for i := range 60 {
			from := start.Add(time.Duration(rnd.Int64N(int64(2 * time.Hour)))).Truncate(time.Microsecond)
			to := from.Add(time.Duration(rnd.Int64N(int64(2 * time.Hour)))).Truncate(time.Microsecond)
			if i%3 == 0 { // bounds on quarters, as days have
				from, to = from.Truncate(15*time.Minute), to.Truncate(15*time.Minute)
			}
			if i == 0 {
				from, to = start, start.Add(24*time.Hour)
			}
			for _, tenant := range []string{"", "t0", "t1", "t9"} {
				got := byKey(must[[]store.UsageSum](t)(s.UsageSums(t.Context(), tenant, from, to)))
				want := byKey(sumUp(rows, tenant, from, to))
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("tenant %q from %s to %s (whole quarters: %v)\n got %+v\nwant %+v", tenant, from, to, whole(from, to), got, want)
				}
			}
		}
	})
}

// sumUp adds rows up independently of the store.
func sumUp(rows []factory.Usage, tenant string, from, to time.Time) []store.UsageSum {
	var out []store.UsageSum
	for _, u := range rows {
		if tenant != "" && u.TenantID != tenant || u.StartedAt.Before(from) || !u.StartedAt.Before(to) {
			continue
		}
		x := store.UsageSum{QuarterStart: u.StartedAt.Truncate(15 * time.Minute), TenantID: u.TenantID, KeyID: u.KeyID, DeploymentID: u.DeploymentID, PriceID: u.PriceID}
		x.Tokens = factory.Tokens{Requests: 1, PromptTokens: u.PromptTokens, CachedTokens: u.CachedTokens, CompletionTokens: u.CompletionTokens}
		if strings.Contains(u.Flags, "estimated") {
			x.Estimated = 1
		}
		if strings.Contains(u.Flags, "aborted") {
			x.Aborted = 1
		}
		out = append(out, x)
	}
	return out
}

// byKey merges sums of equal key; a quarter at a bound may come in one piece or more.
func byKey(list []store.UsageSum) []store.UsageSum {
	key := func(x store.UsageSum) string {
		return fmt.Sprint(x.QuarterStart.Unix(), x.TenantID, x.KeyID, x.DeploymentID, x.PriceID)
	}
	at := map[string]*store.UsageSum{}
	for _, x := range list {
		if y := at[key(x)]; y != nil {
			y.Requests += x.Requests
			y.PromptTokens += x.PromptTokens
			y.CachedTokens += x.CachedTokens
			y.CompletionTokens += x.CompletionTokens
			y.Estimated += x.Estimated
			y.Aborted += x.Aborted
			continue
		}
		at[key(x)] = &x
	}
	var out []store.UsageSum
	for _, x := range at {
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b store.UsageSum) int { return cmp.Compare(key(a), key(b)) })
	return out
}

func TestTheLedgerIsReadInPagesWithoutGapsOrRepeats(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		rows := traffic(rand.New(rand.NewPCG(5, 6)), 300)
		for i := range rows { // many at the same moment
			rows[i].StartedAt = rows[i].StartedAt.Truncate(10 * time.Minute)
		}
		ok(t, s.AppendUsage(ctx, rows))
		for i, f := range []store.UsageFilter{
			{}, {TenantID: "t1"}, {TenantID: "t1", KeyID: "k10"}, {KeyID: "k00"}, {DeploymentID: "d1"},
			{TenantID: "t2", From: start.Add(time.Hour), To: start.Add(2 * time.Hour)}, {TenantID: "nobody"},
		} {
			want := map[string]bool{}
			for _, u := range rows {
				if (f.TenantID == "" || u.TenantID == f.TenantID) && (f.KeyID == "" || u.KeyID == f.KeyID) && (f.DeploymentID == "" || u.DeploymentID == f.DeploymentID) &&
					!u.StartedAt.Before(f.From) && (f.To.IsZero() || u.StartedAt.Before(f.To)) {
					want[u.ID] = true
				}
			}
			got := map[string]bool{}
			last := start.AddDate(1, 0, 0)
			f.Limit = 7
			for pages := 0; ; pages++ {
				page, next, err := s.UsageRows(ctx, f)
				ok(t, err)
				for _, u := range page {
					if got[u.ID] || u.StartedAt.After(last) {
						t.Fatalf("%+v: %s comes again or out of order", f, u.ID)
					}
					got[u.ID], last = true, u.StartedAt
				}
				if f.Cursor = next; next == "" || pages > 100 {
					break
				}
				if pages == 1 && i == 0 { // what arrives meanwhile does not move the pages
					late := request("late", start.AddDate(0, 1, 0), 1, 1)
					late.TenantID, late.DeploymentID = "late", "late"
					ok(t, s.AppendUsage(ctx, []factory.Usage{late}))
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v: %d rows, want %d", f, len(got), len(want))
			}
		}
		for _, cursor := range []string{"x", "!!", "MTIz"} {
			wantKind(t, third(s.UsageRows(ctx, store.UsageFilter{Cursor: cursor})), factory.Invalid)
		}
	})
}

func third[A, B any](_ A, _ B, err error) error { return err }
