//go:build !unix

package servers

import "context"

func lockFile(context.Context, string) (func(), error) { return nil, errNotUnix }
