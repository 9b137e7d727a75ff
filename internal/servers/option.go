package servers

import "strings"

// Option changes how a private server is started.
type Option func(*options)

type options struct {
	names   []string // of settings, in order
	values  map[string]string
	args    []string
	durable bool
	primary string // what a standby follows
}

// Setting gives the server a setting, replacing the harness's own:
// --name=value for MySQL and MariaDB, -c name=value for Postgres, --name value
// for Redis (a value of several words becomes several arguments).
func Setting(name, value string) Option {
	return func(o *options) {
		if _, ok := o.values[name]; !ok {
			o.names = append(o.names, name)
		}
		o.values[name] = value
	}
}

// Args appends arguments to the server's command line as they are, after
// every setting: for flags without a value, or for Redis' --user, which may be
// given more than once.
func Args(args ...string) Option {
	return func(o *options) { o.args = append(o.args, args...) }
}

// Durable makes the server flush to the disk on every commit, as in
// production. Without it a commit survives the server's death, kill -9
// included, but not the machine's; that makes tests several times faster.
func Durable() Option {
	return func(o *options) { o.durable = true }
}

// StandbyOf starts a Postgres as a hot standby of the one at primary, a host
// and port, which it copies and then follows. Promote it with pg_promote.
func StandbyOf(primary string) Option {
	return func(o *options) { o.primary = primary }
}

func newOptions(lists ...[]Option) options {
	o := options{values: map[string]string{}}
	for _, list := range lists {
		for _, option := range list {
			option(&o)
		}
	}
	return o
}

// commandLine renders the settings and arguments for a kind of server.
func (o options) commandLine(kind Kind) []string {
	var args []string
	for _, name := range o.names {
		value := o.values[name]
		switch {
		case kind == Postgres:
			args = append(args, "-c", name+"="+value)
		case kind == Redis && value == "":
			args = append(args, "--"+name, "")
		case kind == Redis:
			args = append(append(args, "--"+name), strings.Fields(value)...)
		default:
			args = append(args, "--"+name+"="+value)
		}
	}
	return append(args, o.args...)
}
