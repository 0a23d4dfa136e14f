package schedule

import "math/bits"

// ImagePropertiesWeigher weighs a host by how many of its instances have the
// image properties that are asked for, each times the factor of the option
// image_props_weight_setting, 1 for one that it does not name
// (weights/image_props.py).
const ImagePropertiesWeigher = "ImagePropertiesWeigher"

func (s *scan) imageProperties(*weigher) func(int, *chunk) *column {
	col := flat(0)
	image := s.nova.Image
	if image == nil || len(image.Properties) == 0 {
		return func(int, *chunk) *column { return col }
	}
	s.beyond = true
	factors := map[string]float64{}
	for _, p := range image.Properties {
		factors[p.Name] = 1
	}
	for _, r := range s.options.ImagePropertySetting {
		factors[r.Name] = r.Ratio
	}
	return func(_ int, c *chunk) *column {
		for m := c.valid; m != 0; m &= m - 1 {
			i := bits.TrailingZeros64(m)
			col.v[i] = s.alike(c.rows.v[i], image.Properties, factors)
		}
		col.span(c.valid)
		return col
	}
}

// alike sums up by property, in the request's order, so that the sum is the same
// wherever it is made.
func (s *scan) alike(r *row, asked []Property, factors map[string]float64) float64 {
	sum := 0.0
	for _, want := range asked {
		n := 0
		for _, id := range r.consumers {
			p, _ := s.t.consumers.get(id)
			if p.told == nil || p.told.image == nil {
				continue
			}
			for _, has := range p.told.image.Properties {
				if has.Name == want.Name && has.Text == want.Text {
					n++
				}
			}
		}
		sum += float64(factors[want.Name] * float64(n))
	}
	return sum
}
