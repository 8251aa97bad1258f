//go:build linux && apps

package apps

var pyverbs = []exchange{
	{program: "pyverbs", label: "its own tests", client: "sh " + file("pyverbs.sh") + " $DEV", says: []string{`OK`}, limit: 3 * limit},
}
