package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"unicode"
)

// snake returns a value that encodes as JSON like v, with Go's names of fields
// written like_this; names from tags and keys of maps stay. Slices are never null.
func snake(v any) any { return snakeOf(reflect.ValueOf(v)) }

func snakeOf(v reflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	if v.CanInterface() {
		if _, encodes := v.Interface().(json.Marshaler); encodes {
			return v.Interface()
		}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return snakeOf(v.Elem())
	case reflect.Slice, reflect.Array:
		all := make([]any, v.Len())
		for i := range all {
			all[i] = snakeOf(v.Index(i))
		}
		return all
	case reflect.Struct:
		var all object
		for field, value := range v.Fields() {
			tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case !field.IsExported() || tag == "-":
				continue
			case tag == "":
				tag = snakeName(field.Name)
			}
			all = append(all, member{tag, snakeOf(value)})
		}
		return all
	}
	return v.Interface()
}

// snakeName writes SQLMode as sql_mode.
func snakeName(name string) string {
	runes := []rune(name)
	var b strings.Builder
	for i, r := range runes {
		begins := i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if begins {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON writes the members in order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		b.Write(append(name, ':'))
		if err := printJSON(&b, m.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
