package bus

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// transport is a parsed transport_url.
type transport struct {
	brokers []broker
	// vhost is the virtual host: "/" when the URL names none.
	vhost string
	// ssl is the value of ?ssl=; nil if it is not given.
	ssl *bool
}

// broker is one address of a transport_url, with its credentials.
type broker struct {
	address        string
	user, password string
}

// host is the broker's name without its port.
func (b broker) host() string {
	host, _, _ := net.SplitHostPort(b.address)
	return host
}

// parseTransportURL reads a transport_url as oslo.messaging does:
// rabbit://USER:PASS@HOST:PORT[,USER:PASS@HOST:PORT…]/VHOST[?ssl=1]. Its errors name no
// password.
func parseTransportURL(text string) (*transport, error) {
	scheme, rest, ok := strings.Cut(strings.TrimSpace(text), "://")
	if !ok {
		return nil, errors.New("is not a transport_url; write it as rabbit://USER:PASSWORD@HOST:PORT/VHOST")
	}
	if scheme != "rabbit" && scheme != "amqp" {
		return nil, fmt.Errorf("%.32q is not a driver that is served; rabbit is", scheme)
	}
	rest, _, _ = strings.Cut(rest, "#")
	rest, query, _ := strings.Cut(rest, "?")
	hosts, vhost, _ := strings.Cut(rest, "/")
	t := &transport{}
	var err error
	if t.vhost, err = url.PathUnescape(vhost); err != nil {
		return nil, errors.New("the virtual host has a % that is followed by no two hexadecimal digits")
	}
	if t.vhost == "" {
		t.vhost = "/"
	}
	for i, h := range strings.Split(hosts, ",") {
		if h == "" {
			continue
		}
		b, err := parseBroker(h)
		if err != nil {
			return nil, fmt.Errorf("address %d: %w", i+1, err)
		}
		t.brokers = append(t.brokers, b)
	}
	if len(t.brokers) == 0 {
		t.brokers = []broker{{address: "localhost:5672", user: "guest", password: "guest"}}
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("the options after ? cannot be read")
	}
	if v := values.Get("ssl"); v != "" {
		on, err := strconv.ParseBool(strings.ToLower(v))
		if err != nil {
			return nil, fmt.Errorf("ssl=%.16q is neither true nor false", v)
		}
		t.ssl = &on
	}
	return t, nil
}

// parseBroker reads [USER:PASS@]HOST[:PORT].
func parseBroker(text string) (broker, error) {
	// Like kombu, it logs in as guest if no user is named.
	b := broker{user: "guest", password: "guest"}
	host := text
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		host = text[i+1:]
		user, password, _ := strings.Cut(text[:i], ":")
		var err, perr error
		b.user, err = url.PathUnescape(user)
		b.password, perr = url.PathUnescape(password)
		if err != nil || perr != nil {
			return b, errors.New("the user or the password has a % that is followed by no two hexadecimal digits")
		}
	}
	port := ""
	if strings.HasPrefix(host, "[") {
		end := strings.IndexByte(host, ']')
		if end < 0 {
			return b, errors.New("the IPv6 address has no ]")
		}
		host, port = host[1:end], strings.TrimPrefix(host[end+1:], ":")
	} else {
		host, port, _ = strings.Cut(host, ":")
	}
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = "5672"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return b, errors.New("the port is not between 1 and 65535")
	}
	b.address = net.JoinHostPort(host, port)
	return b, nil
}

// sameBus reports whether two transports lead to one message bus.
func (t *transport) sameBus(as *transport) bool {
	return t.vhost == as.vhost && slices.ContainsFunc(t.brokers, func(b broker) bool {
		return slices.ContainsFunc(as.brokers, func(o broker) bool { return o.address == b.address })
	})
}

// templateField matches a name in braces, as the URLs of cell_mappings may have them.
var templateField = regexp.MustCompile(`\{[a-z]+[0-9]*\}`)

// fillTransportURL replaces names in braces by the parts of Nova's own transport_url, as Nova
// does: {scheme}, {username}, {password}, {hostname}, {port}, {path}, {query}, {fragment}, and
// {username1} and so on for each of its addresses, counted from 1.
func fillTransportURL(text, own string) (string, error) {
	if !strings.Contains(text, "{") {
		return text, nil
	}
	scheme, rest, _ := strings.Cut(own, "://")
	rest, fragment, _ := strings.Cut(rest, "#")
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	parts := map[string]string{"{scheme}": scheme, "{path}": path, "{query}": query, "{fragment}": fragment}
	for i, h := range strings.Split(hosts, ",") {
		login, address := "", h
		if at := strings.LastIndexByte(h, '@'); at >= 0 {
			login, address = h[:at], h[at+1:]
		}
		user, password, _ := strings.Cut(login, ":")
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			host, port = address, ""
		}
		for name, value := range map[string]string{"username": user, "password": password, "hostname": host, "port": port} {
			parts[fmt.Sprintf("{%s%d}", name, i+1)] = value
			if i == 0 {
				parts["{"+name+"}"] = value
			}
		}
	}
	var unknown []string
	text = templateField.ReplaceAllStringFunc(text, func(name string) string {
		value, ok := parts[name]
		if !ok {
			unknown = append(unknown, name)
		}
		return value
	})
	if unknown != nil {
		return "", fmt.Errorf("the own transport_url has no %s", strings.Join(unknown, ", "))
	}
	return text, nil
}

// CheckTransportURL reports what is wrong with a transport_url, without its password.
func CheckTransportURL(text string) error {
	_, err := parseTransportURL(text)
	return err
}
