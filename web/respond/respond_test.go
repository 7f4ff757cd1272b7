package respond

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
)

func TestCSVDefusesFormulasAndKeepsFigures(t *testing.T) {
	w := httptest.NewRecorder()
	c := echo.New().NewContext(httptest.NewRequest(http.MethodGet, "/", nil), w)
	rows := [][]string{{"=1+1", "+1", "@x", "-cmd"}, {" =1", "-1.5", "12", "a,\"b\""}, {"\tx", "-", "", "plain"}}
	if err := CSV(c, "a\"b/ü.csv", []string{"=h", "n", "m", "o"}, rows); err != nil {
		t.Fatal(err)
	}
	want := "'=h,n,m,o\n'=1+1,'+1,'@x,'-cmd\n' =1,-1.5,12,\"a,\"\"b\"\"\"\n'\tx,'-,,plain\n"
	if got := w.Body.String(); got != want {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	if got := w.Header().Get("Content-Disposition"); got != `attachment; filename="a-b--.csv"` {
		t.Error(got)
	}
}

func TestFlashIsToldOnceAndOnWholePagesOnly(t *testing.T) {
	e := echo.New()
	w := httptest.NewRecorder()
	Flash(e.NewContext(httptest.NewRequest(http.MethodPost, "/", nil), w), "Cluster “x” saved.")
	cookie := w.Result().Cookies()[0]

	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.AddCookie(cookie)
	r.Header.Set("HX-Request", "true")
	if got := takeFlash(e.NewContext(r, httptest.NewRecorder())); got != "" {
		t.Errorf("a part of a page took %q", got)
	}
	r.Header.Del("HX-Request")
	w = httptest.NewRecorder()
	if got := takeFlash(e.NewContext(r, w)); got != "Cluster “x” saved." {
		t.Errorf("%q", got)
	}
	if left := w.Result().Cookies(); len(left) != 1 || left[0].MaxAge >= 0 {
		t.Errorf("the cookie stays: %v", left)
	}
}
