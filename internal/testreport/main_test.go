package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReport(t *testing.T) {
	tests := []struct {
		name  string
		input string
		want  string
		ok    bool
	}{
		{
			name: "a package that passes is one line, one without tests is none",
			input: `{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"TestX"}
{"Action":"output","Package":"a","Test":"TestX","Output":"=== RUN   TestX\n"}
{"Action":"output","Package":"a","Test":"TestX","Output":"    a_test.go:3: chatter\n"}
{"Action":"pass","Package":"a","Test":"TestX"}
{"Action":"output","Package":"a","Output":"PASS\n"}
{"Action":"output","Package":"a","Output":"ok  \ta\t0.1s\n"}
{"Action":"pass","Package":"a"}
{"Action":"output","Package":"b","Output":"?   \tb\t[no test files]\n"}
{"Action":"skip","Package":"b"}
`,
			want: "ok  \ta\t0.1s\n1 tests in 1 packages ran, 0 failed, 0 skipped: PASS\n",
			ok:   true,
		},
		{
			name: "what failed is printed whole, what passed beside it isn't",
			input: `{"Action":"output","Package":"a","Test":"TestX","Output":"    a_test.go:3: wrong\n"}
{"Action":"output","Package":"a","Test":"TestY","Output":"    a_test.go:4: right\n"}
{"Action":"output","Package":"a","Test":"TestX","Output":"--- FAIL: TestX\n"}
{"Action":"fail","Package":"a","Test":"TestX"}
{"Action":"pass","Package":"a","Test":"TestY"}
{"Action":"output","Package":"a","Output":"FAIL\ta\t0.1s\n"}
{"Action":"fail","Package":"a"}
`,
			want: "    a_test.go:3: wrong\n--- FAIL: TestX\nFAIL\ta\t0.1s\n2 tests in 1 packages ran, 1 failed, 0 skipped: FAIL in a\n",
		},
		{
			name: "equal reasons of skipped tests count together",
			input: `{"Action":"output","Package":"a","Test":"TestX","Output":"=== RUN   TestX\n"}
{"Action":"output","Package":"a","Test":"TestX","Output":"    a_test.go:3: TestX did not run: no such server\n"}
{"Action":"output","Package":"a","Test":"TestX","Output":"--- SKIP: TestX (0.00s)\n"}
{"Action":"skip","Package":"a","Test":"TestX"}
{"Action":"output","Package":"a","Test":"TestY","Output":"    a_test.go:9: TestY did not run: no such server\n"}
{"Action":"skip","Package":"a","Test":"TestY"}
{"Action":"skip","Package":"a","Test":"TestZ"}
{"Action":"output","Package":"b","Test":"TestX","Output":"    b_test.go:9: TestX did not run: no such server\n"}
{"Action":"skip","Package":"b","Test":"TestX"}
{"Action":"pass","Package":"b"}
{"Action":"pass","Package":"a"}
`,
			want: "skipped\ta TestX and 2 more: no such server\nskipped\ta TestZ: no reason given\n0 tests in 2 packages ran, 0 failed, 4 skipped: PASS\n",
			ok:   true,
		},
		{
			name: "a package that doesn't build",
			input: `{"ImportPath":"a","Action":"build-output","Output":"a.go:1: broken\n"}
{"ImportPath":"a","Action":"build-fail"}
{"Action":"output","Package":"a","Output":"FAIL\ta [build failed]\n"}
{"Action":"fail","Package":"a","FailedBuild":"a"}
`,
			want: "a.go:1: broken\nFAIL\ta [build failed]\n0 tests in 1 packages ran, 0 failed, 0 skipped: FAIL in a\n",
		},
		{
			name: "a test that never ends",
			input: `{"Action":"output","Package":"a","Test":"TestX","Output":"panic: test timed out\n"}
{"Action":"output","Package":"a","Output":"FAIL\ta\t10s\n"}
{"Action":"fail","Package":"a"}
`,
			want: "panic: test timed out\nFAIL\ta\t10s\n0 tests in 1 packages ran, 0 failed, 0 skipped: FAIL in a\n",
		},
		{
			name: "go test is killed",
			input: `{"Action":"output","Package":"a","Test":"TestX","Output":"half a"}
not JSON
`,
			want: "not JSON\nhalf aFAIL\ta\tits test never ended\n0 tests in 0 packages ran, 0 failed, 0 skipped: FAIL in a\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			ok, err := report(strings.NewReader(tt.input), &out)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if ok != tt.ok {
				t.Errorf("ok is %v, expected %v", ok, tt.ok)
			}
		})
	}
}
