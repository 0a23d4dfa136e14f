package peers

import (
	"fmt"
	"math"
	"strings"
)

// chart draws claims a second against hosts as SVG, on logarithmic scales, with one panel for each number of callers.
// A line is a system in an order.
func (r *report) chart() string {
	const left, top, wide, high, panel, foot = 60, 50, 330, 240, 470, 60
	rows := r.rows()
	if len(rows) == 0 {
		return ""
	}
	lowest, highest := math.Inf(1), math.Inf(-1)
	fewest, most := math.Inf(1), math.Inf(-1)
	for _, row := range rows {
		fewest, most = min(fewest, float64(row.placement.Hosts)), max(most, float64(row.placement.Hosts))
		for _, s := range []step{row.placement, row.cellgate} {
			if s.Rate > 0 {
				lowest, highest = min(lowest, s.Rate), max(highest, s.Rate)
			}
		}
	}
	if lowest > highest {
		return ""
	}
	lowest, highest = math.Floor(math.Log10(lowest)), math.Ceil(math.Log10(highest))
	highest = max(highest, lowest+1)
	x := func(hosts int) float64 {
		if most == fewest {
			return wide / 2
		}
		return wide * math.Log(float64(hosts)/fewest) / math.Log(most/fewest)
	}
	y := func(rate float64) float64 { return high * (highest - math.Log10(rate)) / (highest - lowest) }
	var b strings.Builder
	for i, callers := range callerSteps {
		at := left + i*panel
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"24\" font-size=\"15\" font-weight=\"bold\">Claims a second, callers: %d</text>\n", at, callers)
		for power := lowest; power <= highest; power++ {
			line := top + y(math.Pow(10, power))
			fmt.Fprintf(&b, "<path d=\"M%d %.1fh%d\" stroke=\"#dfe4ea\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", at, line, wide, at-6, line+4, math.Pow(10, power))
		}
		labelled := map[int]bool{}
		for _, o := range everyOrder {
			for _, system := range []string{placementName, cellgateName} {
				color, path := map[string]string{placementName: "#c0562f", cellgateName: "#2f6db5"}[system], "M"
				var end step
				for _, s := range r.Steps {
					if s.System != system || s.Order != o || s.Callers != callers || s.Rate == 0 {
						continue
					}
					fmt.Fprintf(&b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>", float64(at)+x(s.Hosts), top+y(s.Rate), color)
					path += fmt.Sprintf(" %.1f %.1f", float64(at)+x(s.Hosts), top+y(s.Rate))
					end = s
					if !labelled[s.Hosts] {
						labelled[s.Hosts] = true
						fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>", float64(at)+x(s.Hosts), top+high+18, s.Hosts)
					}
				}
				if end.Rate == 0 {
					continue
				}
				dash := map[order]string{packFirst: "", spread: "6 3", random: "2 3"}[o]
				fmt.Fprintf(&b, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-dasharray=\"%s\"/>\n", path, color, dash)
			}
		}
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">hosts</text>\n", at+wide/2, top+high+36)
	}
	fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" fill=\"#2f6db5\">cellgate</text><text x=\"%d\" y=\"%d\" fill=\"#c0562f\">Placement</text><text x=\"%d\" y=\"%d\">pack-first solid, spread dashed, random dotted</text>\n",
		left, top+high+foot, left+80, top+high+foot, left+170, top+high+foot)
	width, height := left+panel*len(callerSteps)-60, top+high+foot+14
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#1d2733\">\n<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n%s</svg>\n",
		width, height, width, height, width, height, b.String())
}
