// Writes the calls of this package's checks; tests/lab/parity/unit_cases.py puts it here.
package utils

import (
	"encoding/json"
	"os"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
	gates "k8s.io/apiserver/pkg/util/feature"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
)

var _ = v1.ObjectMeta{}
var _ = rayv1.RayCluster{}
var within = 0

type recorded struct {
	Test      string          `json:"test"`
	Check     string          `json:"check"`
	Arguments []any           `json:"arguments"`
	Gates     map[string]bool `json:"gates"`
}

func record(check string, call func() error, arguments ...any) error {
	within++
	defer func() { within-- }()
	if within > 1 {
		return call()
	}
	said := recorded{Test: caller(), Check: check, Arguments: arguments, Gates: map[string]bool{}}
	for gate := range gates.DefaultMutableFeatureGate.GetAll() {
		said.Gates[string(gate)] = gates.DefaultMutableFeatureGate.Enabled(gate)
	}
	raw, err := json.Marshal(said)
	if err != nil {
		panic(err)
	}
	file, err := os.OpenFile(os.Getenv("PARITY_CASES"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	if _, err := file.Write(append(raw, '\n')); err != nil {
		panic(err)
	}
	return call()
}

func caller() string {
	for depth := 3; depth < 12; depth++ {
		counter, _, _, _ := runtime.Caller(depth)
		name := runtime.FuncForPC(counter).Name()
		if at := strings.Index(name, ".Test"); at >= 0 {
			test, _, _ := strings.Cut(name[at+1:], ".")
			return test
		}
	}
	return ""
}
