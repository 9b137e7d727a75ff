// Api is a small HTTP service around the plugin: ids are strings in JSON, lists
// are pages by cursor, /readyz says whether ids can be had, and a SIGTERM
// drains the requests before the worker id is released.
//
//	go run ./examples/api            # asks itself a few requests, then ends
//	go run ./examples/api -serve     # serves until SIGTERM or Ctrl-C
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/gormflake/gormflake"
	"github.com/gormflake/gormflake/examples/internal/database"
)

func main() {
	serve := flag.Bool("serve", false, "serve until SIGTERM or Ctrl-C")
	address := flag.String("addr", "127.0.0.1:0", "address to listen on; port 0 takes a free one")
	dsn := flag.String("dsn", "", database.Flag)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *address, *dsn, *serve); err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
}

// run starts the service, and ends it in the order that loses nothing: no new
// requests, then the running ones, then the worker id, then the database.
func run(ctx context.Context, out io.Writer, address, dsn string, serve bool) error {
	db, err := database.Open(dsn)
	if err != nil {
		return err
	}
	pool, err := db.DB()
	if err != nil {
		return err
	}
	defer pool.Close()
	flake := gormflake.New(gormflake.Config{})
	if err := db.Use(flake); err != nil {
		return err
	}
	if err := flake.Start(ctx); err != nil {
		return err
	}
	defer flake.Close(context.WithoutCancel(ctx))
	if err := db.AutoMigrate(&Order{}); err != nil {
		return err
	}

	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: newHandler(db, flake), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	url := "http://" + listener.Addr().String()
	fmt.Fprintf(out, "Serving on %s, worker %d\n", url, flake.Generator().Stats().Worker)

	if serve {
		<-ctx.Done()
	} else if err := visit(ctx, out, url); err != nil {
		return errors.Join(err, server.Close())
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil {
		return err
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	fmt.Fprintln(out, "Drained; releasing the worker id")
	return nil
}

// visit asks the service what a client would.
func visit(ctx context.Context, out io.Writer, url string) error {
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	ask := func(method, path, body string) error {
		request, err := http.NewRequestWithContext(ctx, method, url+path, bytes.NewReader([]byte(body)))
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\n%s %s %s\n  %s %s\n", method, path, body, response.Status, strings.TrimSpace(string(text)))
		return nil
	}
	for _, customer := range []string{"Ada", "Grace", "Barbara"} {
		if err := ask("POST", "/orders", fmt.Sprintf(`{"customer":%q}`, customer)); err != nil {
			return err
		}
	}
	for _, path := range []string{"/orders?first=2", "/orders?last=1", "/orders/12e3", "/readyz"} {
		if err := ask("GET", path, ""); err != nil {
			return err
		}
	}
	return nil
}
