package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// setText sets v, a key's field, from the text of a scalar: of the file, the
// environment or a flag.
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
		u, ok := all.Index(i).Addr().Interface().(encoding.TextUnmarshaler)
		if !ok {
			return fmt.Errorf("can only be set in the file")
		}
		if err := u.UnmarshalText([]byte(text)); err != nil {
			return err
		}
	}
	v.Set(all)
	return nil
}

// split cuts at sep and drops blanks and empty parts.
func split(text, sep string) []string {
	parts := []string{}
	for p := range strings.SplitSeq(text, sep) {
		if p = strings.TrimSpace(p); p != "" {
			parts = append(parts, p)
		}
	}
	return parts
}

// UnmarshalText reads name=[uuid@]host:port[,host:port].
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

// UnmarshalText reads cell=URL.
func (c *LegacyCell) UnmarshalText(text []byte) error {
	name, url, ok := strings.Cut(string(text), "=")
	if !ok {
		return fmt.Errorf("this is no legacy cell; write it as cell=URL") // it may have a password
	}
	*c = LegacyCell{Cell: name, Database: url}
	return nil
}

// String writes a legacy cell as a flag takes it.
func (c LegacyCell) String() string { return c.Cell + "=" + c.Database }

// UnmarshalText reads name=N,vendor_id=V,….
func (a *PCIAlias) UnmarshalText(text []byte) error {
	fields, err := Pairs(split(string(text), ","))
	if err != nil {
		return err
	}
	*a = PCIAlias{}
	for key, value := range fields {
		field, ok := fieldByKey(reflect.ValueOf(a).Elem(), key)
		if !ok {
			return fmt.Errorf("%q is not name=N,vendor_id=V,product_id=P,device_type=T,numa_policy=P", text)
		}
		field.SetString(value)
	}
	return nil
}

// String writes an alias as a flag takes it.
func (a PCIAlias) String() string {
	var pairs []string
	v := reflect.ValueOf(a)
	for i, key := range names(v.Type()) {
		if value := v.Field(i).String(); value != "" {
			pairs = append(pairs, key+"="+value)
		}
	}
	return strings.Join(pairs, ",")
}

// UnmarshalText reads name=multiplier.
func (w *Weigher) UnmarshalText(text []byte) error {
	name, number, ok := strings.Cut(string(text), "=")
	m, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil {
		return fmt.Errorf("%q is not a weigher; write it as name=multiplier", text)
	}
	*w = Weigher{Name: name, Multiplier: m}
	return nil
}

// String writes a weigher as a flag takes it.
func (w Weigher) String() string {
	return w.Name + "=" + strconv.FormatFloat(w.Multiplier, 'f', -1, 64)
}
