package novaconf

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestRead_SectionsOfServices_AreNovasAccounts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nova.conf")
	text := `[placement]
auth_type = password
auth_url = http://keystone:5000/v3
username = placement
password = p$$w
project_name = service
user_domain_id = default
project_domain_name = Default
region_name = RegionOne
valid_interfaces = internal, public
max_retries = 3
[neutron]
auth_url = http://keystone:5000/v3
username = neutron
password = q
metadata_proxy_shared_secret = s
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Read([]string{file}, Known{Filter: func(string) bool { return true }, Weigher: func(string) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	want := Service{
		AuthType: "password", AuthURL: "http://keystone:5000/v3", Username: "placement", Password: "p$w", ProjectName: "service",
		UserDomainID: "default", ProjectDomainName: "Default", RegionName: "RegionOne", Interfaces: []string{"internal", "public"},
	}
	if !reflect.DeepEqual(s.Placement, want) {
		t.Errorf("got %+v, want %+v", s.Placement, want)
	}
	if got, want := s.Neutron, (Service{AuthURL: "http://keystone:5000/v3", Username: "neutron", Password: "q", Interfaces: []string{}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
