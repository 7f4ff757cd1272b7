package ui

// Link is a named address: a tab, a crumb, a segment of a picker.
type Link struct {
	Label   string
	Href    string
	Current bool
	// Count stands beside a tab's label when it is not nil.
	Count *int
}
