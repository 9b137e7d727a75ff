package gormflake

import (
	"reflect"
	"unsafe"

	"github.com/gormflake/gormflake/generator"
)

// cells is where the rows of a statement lie in memory. Where all fields to be
// filled are 64-bit integers inside of the row, their offsets are known once
// per model, and a row costs two memory accesses instead of a walk by
// reflection. Everything else takes the walk.
type cells struct {
	base     unsafe.Pointer
	n        int
	stride   uintptr
	pointers bool // the elements point to the rows
}

// cells returns where the rows lie, if their kind is one of the usual.
func (p *plan) cells(rows reflect.Value) (c cells, ok bool) {
	if !p.inline {
		return c, false
	}
	var element reflect.Type
	switch rows.Kind() {
	case reflect.Struct:
		if !rows.CanAddr() {
			return c, false
		}
		element, c.base, c.n = rows.Type(), rows.Addr().UnsafePointer(), 1
	case reflect.Slice:
		element, c.base, c.n = rows.Type().Elem(), rows.UnsafePointer(), rows.Len()
	case reflect.Array:
		if !rows.CanAddr() {
			return c, false
		}
		element, c.base, c.n = rows.Type().Elem(), rows.Addr().UnsafePointer(), rows.Len()
	default:
		return c, false
	}
	switch {
	case element == p.schema.ModelType:
		c.stride = element.Size()
	case element.Kind() == reflect.Pointer && element.Elem() == p.schema.ModelType:
		c.stride, c.pointers = element.Size(), true
	default:
		return c, false
	}
	return c, true
}

// row returns the address of a row, nil for an element that points to none.
func (c *cells) row(i int) unsafe.Pointer {
	row := unsafe.Add(c.base, uintptr(i)*c.stride)
	if c.pointers {
		row = *(*unsafe.Pointer)(row)
	}
	return row
}

// cell returns a field of a row. Signed and unsigned ids are the same bits.
func (t *target) cell(row unsafe.Pointer) *int64 {
	return (*int64)(unsafe.Add(row, t.offset))
}

func (p *plan) missingCells(c cells) (n int) {
	for i := range c.n {
		row := c.row(i)
		if row == nil {
			continue
		}
		for t := range p.targets {
			if *p.targets[t].cell(row) == 0 {
				n++
			}
		}
	}
	return n
}

func (p *plan) fillCells(c cells, ids []generator.ID) {
	used := 0
	for i := range c.n {
		row := c.row(i)
		if row == nil {
			continue
		}
		for t := range p.targets {
			if cell := p.targets[t].cell(row); *cell == 0 && used < len(ids) {
				*cell = int64(ids[used])
				used++
			}
		}
	}
}

// place finds out whether a field lies inside of its row, and where.
func (t *target) place(model reflect.Type) {
	if t.pointers > 0 {
		return
	}
	var offset uintptr
	at := model
	for _, index := range t.path {
		if index < 0 {
			return
		}
		field := at.Field(index)
		offset += field.Offset
		at = field.Type
	}
	t.offset, t.inline = offset, at.Size() == unsafe.Sizeof(int64(0))
}
