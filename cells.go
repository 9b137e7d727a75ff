package gormflake

import (
	"reflect"
	"unsafe"

	"gorm.io/gorm"

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

// only returns where the id of a statement's row lies when that is all there is
// to do: the statement has one row, whose model was the last one seen and wants
// nothing but an id. It is nil otherwise. Most creates are such, and of so little
// work, between what GORM and the driver do, that every cache line counts.
func (p *Plugin) only(stmt *gorm.Statement) (*plan, *int64) {
	last, row := p.lastPlan.Load(), stmt.ReflectValue
	if last == nil || last.schema != stmt.Schema || row.Kind() != reflect.Struct || !row.CanAddr() || row.Type() != last.lone.model {
		return nil, nil
	}
	return last, (*int64)(unsafe.Add(unsafe.Pointer(row.UnsafeAddr()), last.lone.offset))
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
		element, c.base, c.n = rows.Type(), unsafe.Pointer(rows.UnsafeAddr()), 1
	case reflect.Slice:
		element, c.base, c.n = rows.Type().Elem(), rows.UnsafePointer(), rows.Len()
	case reflect.Array:
		if !rows.CanAddr() {
			return c, false
		}
		element, c.base, c.n = rows.Type().Elem(), unsafe.Pointer(rows.UnsafeAddr()), rows.Len()
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
