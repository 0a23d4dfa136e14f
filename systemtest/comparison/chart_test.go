package comparison

import (
	"fmt"
	"strings"
)

// cloudRun is one cloud and the results of each scheduler in it.
type cloudRun struct {
	title   string
	tallies []*tally
}

// chart draws the clouds side by side as SVG, with three rows of bars each: placed, wrong, and
// tried again. All bars of a row have the same scale.
func chart(runs []cloudRun) string {
	const column, left, longest, bar, gap, margin = 470, 70, 220, 22, 8, 14
	var b strings.Builder
	for i, run := range runs {
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"30\" font-size=\"15\" font-weight=\"bold\">%s</text>\n", margin+i*column, run.title)
	}
	y := 42
	panel := func(title string, value func(*tally) float64, label func(t, first *tally) string) {
		most := 0.0
		for _, run := range runs {
			for _, t := range run.tallies {
				most = max(most, value(t))
			}
		}
		bottom := y
		for i, run := range runs {
			x, at := margin+i*column, y+24
			fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" fill=\"#5b6875\">%s</text>\n", x, at, title)
			at += 10
			for _, t := range run.tallies {
				length := 0.0
				if most > 0 {
					length = longest * value(t) / most
				}
				fill := "#9aa7b4"
				if t.name == "cellgate" {
					fill = "#2f6db5"
				}
				fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\">%s</text><rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/><text x=\"%.1f\" y=\"%d\">%s</text>\n",
					x, at+16, t.name, x+left, at, max(length, 1), bar, fill, float64(x+left)+max(length, 1)+6, at+16, label(t, run.tallies[0]))
				at += bar + gap
			}
			bottom = max(bottom, at)
		}
		y = bottom + 6
	}
	panel("instances placed a second (and of what legacy places)", (*tally).rate, func(t, first *tally) string {
		return fmt.Sprintf("%.0f (%.0f %%)", t.rate(), 100*t.rate()/first.rate())
	})
	panel("wrong choices, of all choices", (*tally).wrongShare, func(t, _ *tally) string { return fmt.Sprintf("%.2f %%", 100*t.wrongShare()) })
	panel("retries for 1,000 placed", (*tally).retries, func(t, _ *tally) string { return fmt.Sprintf("%.1f", t.retries()) })
	width := 2*margin + len(runs)*column - 20
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#1d2733\">\n<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n%s</svg>\n",
		width, y+10, width, y+10, width, y+10, b.String())
}
