package ui

// Column is the head of one column of a Table.
type Column struct {
	Label string
	Num   bool // right-aligned figures
	// Hidden labels are for screen readers only: the column of row actions.
	Hidden bool
	// Sort is where clicking the head leads; Sorted is "ascending", "descending" or empty.
	Sort   string
	Sorted string
}

// Columns makes plain columns from labels.
func Columns(labels ...string) []Column {
	out := make([]Column, len(labels))
	for i, l := range labels {
		out[i].Label = l
	}
	return out
}

func (c Column) ariaSort() string {
	if c.Sorted == "" {
		return "none"
	}
	return c.Sorted
}
