package handlers

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"tokenfactory/factory"
	"tokenfactory/slo"
	views "tokenfactory/views/objectives"
	"tokenfactory/web/respond"
)

// objectiveJSON is an objective in the API. Targets that a deployment does not have are
// null, as are figures of windows without requests: those are neither good nor bad.
type objectiveJSON struct {
	ID            string             `json:"id"`
	Name          string             `json:"name"`
	State         views.State        `json:"state"`
	Share         float64            `json:"share"` // of the requests that have to be good
	Targets       targetsJSON        `json:"targets"`
	TargetsAt     time.Time          `json:"targets_at"` // what was judged before stays as it was
	WindowSeconds int64              `json:"window_seconds"`
	Good          int64              `json:"good"`
	Bad           int64              `json:"bad"`
	BudgetLeft    *float64           `json:"budget_left"`
	Alert         factory.AlertState `json:"alert,omitempty"`
	Windows       []burnJSON         `json:"windows"`
}

type targetsJSON struct {
	TTFTMS     *float64 `json:"ttft_ms"`
	ITLMS      *float64 `json:"itl_ms"`
	OutputRate *float64 `json:"output_tokens_per_second"`
}

type burnJSON struct {
	Severity     factory.Severity `json:"severity"`
	Factor       float64          `json:"factor"`
	LongSeconds  int64            `json:"long_seconds"`
	ShortSeconds int64            `json:"short_seconds"`
	LongBurn     *float64         `json:"long_burn"`
	ShortBurn    *float64         `json:"short_burn"`
	TooFast      bool             `json:"too_fast"`
	Reachable    bool             `json:"reachable"` // by this objective, were every request bad
}

// everything is all objectives with their rules, in the order of the page.
func (h *Objectives) everything(c echo.Context) ([]views.Objective, error) {
	ctx, now := c.Request().Context(), h.Now()
	all, err := h.all(ctx, now)
	if err != nil {
		return nil, err
	}
	return all, h.burn(ctx, all, now)
}

// JSON is GET /api/v1/objectives.
func (h *Objectives) JSON(c echo.Context) error {
	all, err := h.everything(c)
	if err != nil {
		return err
	}
	out := make([]objectiveJSON, len(all))
	for i, o := range all {
		out[i] = objectiveOf(o)
	}
	return respond.JSON(c, http.StatusOK, map[string]any{"objectives": out})
}

func objectiveOf(o views.Objective) objectiveJSON {
	t := o.Targets()
	out := objectiveJSON{
		ID: o.ID, Name: o.Name, State: o.State(), Share: o.ObjectiveShare(),
		Targets:   targetsJSON{TTFTMS: positive(millis(t.TTFT)), ITLMS: positive(millis(t.ITL)), OutputRate: positive(t.OutputRate)},
		TargetsAt: o.TargetsAt, WindowSeconds: seconds(factory.ObjectiveWindow),
		Good: int64(math.Round(o.Counts.Good)), Bad: int64(math.Round(o.Counts.Bad)), BudgetLeft: rounded(o.Left, 6), Alert: o.Alert,
	}
	out.Windows = windowsOf(o.Burn, out.Share)
	return out
}

// windowsOf are the rules of an objective as they stand.
func windowsOf(states []slo.BurnState, share float64) []burnJSON {
	out := make([]burnJSON, len(states))
	for i, b := range states {
		out[i] = burnJSON{
			Severity: b.Window.Severity, Factor: b.Window.Factor, LongSeconds: seconds(b.Window.Long), ShortSeconds: seconds(b.Window.Short),
			LongBurn: rounded(b.Long, 6), ShortBurn: rounded(b.Short, 6), TooFast: b.Firing, Reachable: slo.Reachable(share, b.Window.Factor),
		}
	}
	return out
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// positive is a figure of which zero means that there is none.
func positive(v float64) *float64 {
	if v > 0 {
		return &v
	}
	return nil
}

// CSV is all objectives as a file, with the burn over each length of window.
func (h *Objectives) CSV(c echo.Context) error {
	all, err := h.everything(c)
	if err != nil {
		return err
	}
	lengths := burnLengths()
	header := []string{"id", "deployment", "state", "share", "ttft_target_ms", "itl_target_ms", "output_rate_target", "targets_at", "good", "bad", "budget_left"}
	for _, length := range lengths {
		header = append(header, "burn_"+slo.WindowName(length))
	}
	rows := make([][]string, len(all))
	for i, o := range all {
		x := objectiveOf(o)
		row := []string{x.ID, x.Name, string(x.State), numberCell(&x.Share), numberCell(x.Targets.TTFTMS), numberCell(x.Targets.ITLMS), numberCell(x.Targets.OutputRate),
			x.TargetsAt.Format(time.RFC3339), strconv.FormatInt(x.Good, 10), strconv.FormatInt(x.Bad, 10), numberCell(x.BudgetLeft)}
		burn := map[time.Duration]*float64{}
		for _, b := range o.Burn {
			burn[b.Window.Long], burn[b.Window.Short] = b.Long, b.Short
		}
		for _, length := range lengths {
			row = append(row, numberCell(burn[length]))
		}
		rows[i] = row
	}
	return respond.CSV(c, "objectives-"+h.Now().UTC().Format("2006-01-02T1504")+".csv", header, rows)
}
