package respond

import (
	"encoding/csv"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// JSON answers with a value of the API.
func JSON(c echo.Context, status int, v any) error {
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.JSON(status, v)
}

// CSV answers with a file. Cells that a spreadsheet would run as a formula are
// defused with an apostrophe; figures stay figures.
func CSV(c echo.Context, filename string, header []string, rows [][]string) error {
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, "text/csv; charset=utf-8")
	h.Set(echo.HeaderContentDisposition, `attachment; filename="`+safeFilename(filename)+`"`)
	h.Set("Cache-Control", "no-store")
	c.Response().WriteHeader(http.StatusOK)
	w := csv.NewWriter(c.Response())
	if err := w.Write(defused(header)); err != nil {
		return err
	}
	for _, row := range rows {
		if err := w.Write(defused(row)); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

func safeFilename(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune(`"\/`, r) {
			return '-'
		}
		return r
	}, name)
}

func defused(row []string) []string {
	out := make([]string, len(row))
	for i, cell := range row {
		if formula(cell) {
			cell = "'" + cell
		}
		out[i] = cell
	}
	return out
}

// formula reports whether a spreadsheet would evaluate a cell: these first
// characters start one, also after blanks. A plain negative number is none.
func formula(cell string) bool {
	s := strings.TrimLeft(cell, " ")
	if s == "" {
		return false
	}
	switch s[0] {
	case '=', '+', '@', '\t', '\r', '\n':
		return true
	case '-':
		return strings.Trim(s[1:], "0123456789.") != "" || s == "-"
	}
	return false
}
