package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"gorm.io/gorm"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/generator"
)

// Order is a row and its JSON: the id is a string of digits there.
type Order struct {
	ID       gormflake.ID `gorm:"primaryKey" json:"id"`
	Customer string       `gorm:"size:100" json:"customer"`
}

type handler struct{ db *gorm.DB }

func newHandler(db *gorm.DB, flake *gormflake.Plugin) http.Handler {
	h := handler{db}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", h.create)
	mux.HandleFunc("GET /orders", h.list)
	mux.HandleFunc("GET /orders/{id}", h.get)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := flake.Ready(r.Context()); err != nil {
			answer(w, http.StatusServiceUnavailable, err)
			return
		}
		answer(w, http.StatusOK, map[string]string{"status": "ready"})
	})
	return mux
}

func (h handler) create(w http.ResponseWriter, r *http.Request) {
	var in struct{ Customer string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&in); err != nil || in.Customer == "" || len(in.Customer) > 100 {
		answer(w, http.StatusBadRequest, errors.New("want a customer of 1 to 100 bytes"))
		return
	}
	order := Order{Customer: in.Customer}
	err := h.db.WithContext(r.Context()).Create(&order).Error
	if errors.Is(err, generator.ErrSealed) || errors.Is(err, generator.ErrClockBehind) {
		// Nothing was inserted: the client may safely try again.
		w.Header().Set("Retry-After", "5")
		answer(w, http.StatusServiceUnavailable, err)
		return
	}
	if err != nil {
		answer(w, http.StatusInternalServerError, err)
		return
	}
	answer(w, http.StatusCreated, order)
}

func (h handler) list(w http.ResponseWriter, r *http.Request) {
	args := gormflake.PageArgs{After: r.FormValue("after"), Before: r.FormValue("before")}
	for name, into := range map[string]*int{"first": &args.First, "last": &args.Last} {
		if v := r.FormValue(name); v != "" {
			n, err := strconv.Atoi(v)
			if err != nil || n < 1 || n > 100 {
				answer(w, http.StatusBadRequest, errors.New("want "+name+" from 1 to 100"))
				return
			}
			*into = n
		}
	}
	if args.First == 0 && args.Last == 0 {
		args.First = 20
	}
	page, err := gormflake.Page[Order](r.Context(), h.db, args)
	if err != nil {
		answer(w, http.StatusBadRequest, err)
		return
	}
	answer(w, http.StatusOK, page)
}

func (h handler) get(w http.ResponseWriter, r *http.Request) {
	id, err := generator.ParseID(r.PathValue("id"))
	if err != nil {
		answer(w, http.StatusBadRequest, err)
		return
	}
	var order Order
	switch err := h.db.WithContext(r.Context()).First(&order, id).Error; {
	case errors.Is(err, gorm.ErrRecordNotFound):
		answer(w, http.StatusNotFound, err)
	case err != nil:
		answer(w, http.StatusInternalServerError, err)
	default:
		answer(w, http.StatusOK, order)
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	if err, ok := body.(error); ok {
		body = map[string]string{"error": err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
