package servers

import (
	"io"
	"net"
	"strconv"
)

// holdPort takes a machine-wide lock on a port's number: an abstract socket,
// which ends with the program and leaves no file.
func holdPort(port int) (io.Closer, bool) {
	listener, err := net.Listen("unix", "@gormflake-port-"+strconv.Itoa(port))
	if err != nil {
		return nil, false
	}
	return listener, true
}
