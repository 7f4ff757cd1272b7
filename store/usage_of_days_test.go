package store_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"tokenfactory/billing"
	"tokenfactory/factory"
	"tokenfactory/store"
	"tokenfactory/store/storetest"
)

// thirtyDays are those before start, of some zone.
func thirtyDays(zone *time.Location) []time.Time {
	to := billing.DayOf(start, zone)
	return billing.Days(billing.DayOf(to.AddDate(0, 0, -29).Add(time.Hour), zone), to.Add(time.Hour), zone)
}

func TestDA03DaysAddUpExactlyToTheirRange(t *testing.T) {
	storetest.EachDatabase(t, func(t *testing.T, s *store.Store) {
		rnd := rand.New(rand.NewPCG(7, 8))
		rows := traffic(rnd, 3000)
		for i := range rows { // over a month in which clocks change in some zones
			rows[i].StartedAt = start.Add(-time.Duration(rnd.Int64N(int64(40 * 24 * time.Hour)))).Truncate(time.Microsecond)
		}
		ok(t, s.AppendUsage(t.Context(), rows))
		for _, name := range []string{"UTC", "Asia/Kolkata", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"} {
			zone := must[*time.Location](t)(time.LoadLocation(name))
			days := thirtyDays(zone)
			for _, bounds := range [][2]time.Time{
				{days[0], billing.DayAfter(days[len(days)-1], zone)},
				{days[0].Add(5*time.Hour + 7*time.Minute), start.Add(-3*time.Hour - time.Microsecond)}, // in the middle of quarters
				{days[3].Add(time.Minute), days[3].Add(2 * time.Minute)},
			} {
				from, to := bounds[0], bounds[1]
				for _, tenant := range []string{"", "t1", "none"} {
					got := must[[]store.UsageSum](t)(s.UsageOfDays(t.Context(), tenant, from, to, billing.Days(from, to, zone)))
					var want []store.UsageSum
					for _, x := range sumUp(rows, tenant, from, to) {
						x.QuarterStart = billing.DayOf(x.QuarterStart, zone).UTC()
						want = append(want, x)
					}
					if !reflect.DeepEqual(byKey(got), byKey(want)) {
						t.Fatalf("%s, tenant %q, from %s to %s: %d sums differ from %d", name, tenant, from, to, len(byKey(got)), len(byKey(want)))
					}
				}
			}
			var single, whole factory.Tokens
			add := func(to *factory.Tokens, list []store.UsageSum) {
				for _, x := range list {
					to.Requests += x.Requests
					to.PromptTokens += x.PromptTokens
					to.CachedTokens += x.CachedTokens
					to.CompletionTokens += x.CompletionTokens
				}
			}
			for _, day := range days {
				add(&single, must[[]store.UsageSum](t)(s.UsageSums(t.Context(), "", day, billing.DayAfter(day, zone))))
			}
			add(&whole, must[[]store.UsageSum](t)(s.UsageOfDays(t.Context(), "", days[0], billing.DayAfter(days[len(days)-1], zone), days)))
			if whole != single || whole.Requests == 0 || len(days) != 30 {
				t.Errorf("%s: %d days have %+v, their range has %+v", name, len(days), single, whole)
			}
		}
		// Inside a transaction too, which has one connection.
		ok(t, s.InTx(t.Context(), func(tx *store.Store) error {
			days := thirtyDays(time.UTC)
			_, err := tx.UsageOfDays(t.Context(), "", days[0], start, days)
			return err
		}))
	})
}

// BenchmarkDA03 reads all tenants' usage of 20 tenants and 10 models over 90 days, in which
// every tenant used every model in every quarter of an hour: as many roll-ups as 5,000,000
// requests can have, and more than they would.
func BenchmarkDA03(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x.db")
	s, err := store.Open(b.Context(), "sqlite:"+path)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	db, err := sqlx.Connect("sqlite", "file:"+path)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	end := billing.DayOf(start, time.UTC)
	if _, err := db.Exec(`INSERT INTO usage_rollups (quarter_us, tenant_id, key_id, deployment_id, price_id, requests, prompt_tokens, cached_tokens, completion_tokens, estimated, aborted)
		WITH RECURSIVE q(n) AS (SELECT 0 UNION ALL SELECT n+1 FROM q WHERE n < 90*96-1),
		t(a) AS (SELECT 0 UNION ALL SELECT a+1 FROM t WHERE a < 19), m(b) AS (SELECT 0 UNION ALL SELECT b+1 FROM m WHERE b < 9)
		SELECT ? - (n+1)*900000000, 't'||a, 'k'||a, 'd'||b, 'p'||b, 3, 100, 10, 50, 0, 0 FROM q, t, m`, end.UnixMicro()); err != nil {
		b.Fatal(err)
	}
	for _, days := range []int{1, 7, 30, 90} {
		b.Run(fmt.Sprintf("%dd", days), func(b *testing.B) {
			from := end.AddDate(0, 0, -days)
			for b.Loop() {
				if sums, err := s.UsageOfDays(b.Context(), "", from, end, billing.Days(from, end, time.UTC)); err != nil || len(sums) != days*200 {
					b.Fatalf("%d sums, %v", len(sums), err)
				}
			}
		})
	}
}
