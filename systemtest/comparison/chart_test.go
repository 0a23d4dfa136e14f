package comparison

import (
	"fmt"
	"strings"
)

// chart draws two rows of bars as SVG: what was placed, and what was wrong.
func chart(tallies []*tally) string {
	const width, left, bar, gap = 640, 90, 22, 8
	var b strings.Builder
	y := 0
	panel := func(title string, value func(*tally) float64, label func(*tally) string) {
		most := 0.0
		for _, t := range tallies {
			most = max(most, value(t))
		}
		y += 30
		fmt.Fprintf(&b, "<text x=\"0\" y=\"%d\" font-weight=\"bold\">%s</text>\n", y, title)
		y += 12
		for _, t := range tallies {
			length := 0.0
			if most > 0 {
				length = (width - left - 150) * value(t) / most
			}
			fill := "#9aa7b4"
			if t.name == "cellgate" {
				fill = "#2f6db5"
			}
			fmt.Fprintf(&b, "<text x=\"0\" y=\"%d\">%s</text><rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/><text x=\"%.1f\" y=\"%d\">%s</text>\n",
				y+16, t.name, left, y, max(length, 1), bar, fill, left+length+6, y+16, label(t))
			y += bar + gap
		}
	}
	panel("Instances placed a second", (*tally).rate, func(t *tally) string {
		return fmt.Sprintf("%.0f (%.0f %%)", t.rate(), 100*t.rate()/tallies[0].rate())
	})
	panel("Wrong choices, of all", (*tally).wrongShare, func(t *tally) string { return fmt.Sprintf("%.2f %%", 100*t.wrongShare()) })
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-10 0 %d %d\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#1d2733\">\n<rect x=\"-10\" width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n%s</svg>\n",
		width+20, y+10, width+20, y+10, width+20, y+10, b.String())
}
