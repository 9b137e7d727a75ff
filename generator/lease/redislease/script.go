package redislease

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var sources embed.FS

// script is a Lua script and the name under which a server remembers it.
type script struct{ source, sha string }

var (
	acquireScript = load("acquire")
	extendScript  = load("extend")
	releaseScript = load("release")
	lookupScript  = load("lookup")
	listScript    = load("list")
	reserveScript = load("reserve")
)

func load(name string) script {
	var source strings.Builder
	for _, part := range []string{"common", name} {
		text, err := sources.ReadFile("lua/" + part + ".lua")
		if err != nil {
			panic(err) // the build embeds them all
		}
		source.Write(text)
	}
	sum := sha1.Sum([]byte(source.String()))
	return script{source: source.String(), sha: hex.EncodeToString(sum[:])}
}

// run executes the script once and returns its reply. A server that does not
// know it, after a restart or SCRIPT FLUSH, is sent the text; SCRIPT LOAD
// would need one more permission.
func (s script) run(ctx context.Context, conn *redis.Conn, keys []string, args ...any) (reply, error) {
	result, err := s.send(ctx, conn, "evalsha", s.sha, keys, args)
	if err != nil && code(err) == "NOSCRIPT" {
		result, err = s.send(ctx, conn, "eval", s.source, keys, args)
	}
	if err != nil {
		return nil, typed(ctx, err)
	}
	return result, nil
}

func (s script) send(ctx context.Context, conn *redis.Conn, command, body string, keys []string, args []any) (reply, error) {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, command, body, len(keys))
	for _, key := range keys {
		words = append(words, key)
	}
	cmd := once{redis.NewCmd(ctx, append(words, args...)...)}
	if err := conn.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.StringSlice()
}

// once is a command that the client never sends a second time by itself,
// whatever its settings: the repetition of an extension whose reply was lost
// would be refused, and look as if the row were lost. A generator has its own
// way to ask again.
type once struct{ *redis.Cmd }

// NoRetry forbids the client's own retries.
func (once) NoRetry() bool { return true }

// reply is what a script returns: a word, then text.
type reply []string

// word is the first element.
func (r reply) word() string {
	if len(r) == 0 {
		return ""
	}
	return r[0]
}

// numbers reads elements as integers.
func (r reply) numbers(indices ...int) ([]int64, error) {
	numbers := make([]int64, len(indices))
	for i, at := range indices {
		if at >= len(r) {
			return nil, r.unexpected()
		}
		// A score may come as 1.7e+12.
		n, err := strconv.ParseInt(r[at], 10, 64)
		if err != nil {
			f, ferr := strconv.ParseFloat(r[at], 64)
			if ferr != nil {
				return nil, r.unexpected()
			}
			n = int64(f)
		}
		numbers[i] = n
	}
	return numbers, nil
}

func (r reply) unexpected() error {
	return fmt.Errorf("%w: a script answered %q", ErrDamaged, []string(r))
}
