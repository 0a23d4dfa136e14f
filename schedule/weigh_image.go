package schedule

import "math/bits"

// ImagePropertiesWeigher weighs a host by how many of its instances have the requested image properties. Each counts
// times its factor in the option image_props_weight_setting: 0 if it is not named there, but 1 for all if the option
// is empty (weights/image_props.py). With the multiplier 0 in the rules nothing is counted, even if aggregates
// override it. Instances that the same request placed on the host do not count, since Nova does not know their image.
const ImagePropertiesWeigher = "ImagePropertiesWeigher"

func (s *scan) imageProperties(w *weigher) func(int, *chunk) *column {
	col := flat(0)
	image := s.nova.Image
	if image == nil || len(image.Properties) == 0 || w.multiplier == 0 {
		return func(int, *chunk) *column { return col }
	}
	s.beyond = true
	factors := map[string]float64{}
	if len(s.options.ImagePropertySetting) == 0 {
		for _, p := range image.Properties {
			factors[p.Name] = 1
		}
	}
	for _, r := range s.options.ImagePropertySetting {
		factors[r.Name] = r.Ratio
	}
	return func(at int, c *chunk) *column {
		before := s.before.chunks[at]
		for m := c.valid; m != 0; m &= m - 1 {
			i := bits.TrailingZeros64(m)
			col.v[i] = s.alike(before.rows.v[i], image.Properties, factors)
		}
		col.span(c.valid)
		return col
	}
}

// alike adds up by property, in the request's order, so that the rounding is the same everywhere.
func (s *scan) alike(r *row, asked []Property, factors map[string]float64) float64 {
	sum := 0.0
	for _, want := range asked {
		n := 0
		for _, id := range r.consumers {
			p, _ := s.before.consumers.get(id)
			if p.details == nil || p.details.image == nil {
				continue
			}
			for _, has := range p.details.image.Properties {
				if has.Name == want.Name && has.Text == want.Text {
					n++
				}
			}
		}
		sum += float64(factors[want.Name] * float64(n))
	}
	return sum
}
