package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// setText sets v, a key's field, from the text of a scalar in the file, the environment or a flag.
func setText(v reflect.Value, text string) error {
	switch kindOf(v.Type()) {
	case Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is not a duration; write it like 250ms, 10s or 5m", text)
		}
		v.SetInt(int64(d))
	case Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		v.SetBool(b)
	case Text:
		v.SetString(text)
	case List:
		v.Set(reflect.ValueOf(split(text, ",")))
	case Table:
		return setTable(v, split(text, ";"))
	case Number:
		return setNumber(v, text)
	}
	return nil
}

func setNumber(v reflect.Value, text string) error {
	switch v.Kind() {
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		v.SetInt(int64(n))
	case reflect.Uint64:
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number from 0", text)
		}
		v.SetUint(n)
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number", text)
		}
		v.SetFloat(n)
	default:
		return fmt.Errorf("cannot be set from %q", text)
	}
	return nil
}

// setTable sets a list of structs from the one-line form of each.
func setTable(v reflect.Value, entries []string) error {
	all := reflect.MakeSlice(v.Type(), len(entries), len(entries))
	for i, text := range entries {
		err := error(nil)
		if u, ok := all.Index(i).Addr().Interface().(encoding.TextUnmarshaler); ok {
			err = u.UnmarshalText([]byte(text))
		} else {
			err = setEntry(all.Index(i), text)
		}
		if err != nil {
			return err
		}
	}
	v.Set(all)
	return nil
}

// setEntry sets a struct of texts from name=value,…. Names that are no field go into its last field if
// that is a list.
func setEntry(v reflect.Value, text string) error {
	pairs := split(text, ",")
	if _, err := Pairs(pairs); err != nil {
		return err
	}
	list := v.Field(v.NumField() - 1)
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		field, known := fieldByKey(v, strings.TrimSpace(name))
		switch {
		case known && kindOf(field.Type()) == Text:
			field.SetString(strings.TrimSpace(value))
		case kindOf(list.Type()) == List:
			list.Set(reflect.Append(list, reflect.ValueOf(pair)))
		default:
			return fmt.Errorf("%q: there is no %s; there are %s", text, name, strings.Join(names(v.Type()), ", "))
		}
	}
	return nil
}

// split splits at sep, trims white space and drops empty parts.
func split(text, sep string) []string {
	parts := []string{}
	for p := range strings.SplitSeq(text, sep) {
		if p = strings.TrimSpace(p); p != "" {
			parts = append(parts, p)
		}
	}
	return parts
}

// UnmarshalText parses name=[uuid@]host:port[,host:port].
func (c *GatewayCell) UnmarshalText(text []byte) error {
	name, rest, ok := strings.Cut(string(text), "=")
	if !ok {
		return fmt.Errorf("%q is not a cell; write it as name=[uuid@]host:port[,host:port]", text)
	}
	uuid, replicas, ok := strings.Cut(rest, "@")
	if !ok {
		uuid, replicas = "", rest
	}
	*c = GatewayCell{Name: name, UUID: uuid, Replicas: split(replicas, ",")}
	return nil
}

// UnmarshalText parses cell=URL.
func (c *LegacyCell) UnmarshalText(text []byte) error {
	name, url, ok := strings.Cut(string(text), "=")
	if !ok {
		return fmt.Errorf("this is no legacy cell; write it as cell=URL") // the text may have a password
	}
	*c = LegacyCell{Cell: name, Database: url}
	return nil
}

// String formats a legacy cell as a flag accepts it.
func (c LegacyCell) String() string { return c.Cell + "=" + c.Database }

// String formats an alias as a flag accepts it.
func (a PCIAlias) String() string {
	var pairs []string
	v := reflect.ValueOf(a)
	for i, key := range names(v.Type()) {
		if value := v.Field(i).String(); value != "" {
			pairs = append(pairs, key+"="+strings.ReplaceAll(value, ",", "+"))
		}
	}
	return strings.Join(pairs, ",")
}

// UnmarshalText parses name=multiplier.
func (w *Weigher) UnmarshalText(text []byte) error {
	name, number, ok := strings.Cut(string(text), "=")
	m, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil {
		return fmt.Errorf("%q is not a weigher; write it as name=multiplier", text)
	}
	*w = Weigher{Name: name, Multiplier: m}
	return nil
}

// String formats a weigher as a flag accepts it.
func (w Weigher) String() string {
	return w.Name + "=" + strconv.FormatFloat(w.Multiplier, 'f', -1, 64)
}
