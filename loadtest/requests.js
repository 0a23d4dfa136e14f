// What the load asks for: one weighted table of request shapes.

// Flavors as clouds see them: vCPUs, MiB, GiB, hundredths of the requests.
const flavors = [
  [1, 2048, 20, 18], [2, 4096, 40, 45], [4, 8192, 80, 8],
  [8, 16384, 160, 24], [16, 65536, 320, 3], [32, 131072, 640, 2],
];

// Shapes: their name, hundredths of the requests, what they add to a request,
// and what is to come of it: "placed", "refused" (no valid host) or "invalid".
export const shapes = [
  { name: 'plain', share: 49, expect: 'placed', add() {} },
  { name: 'zone', share: 14, expect: 'placed', add(r) { r.request_spec.availability_zone = pick(['az1', 'az2', 'az3']); } },
  { name: 'traits', share: 14, expect: 'placed', add(r) {
    r.request_spec.required_traits = [pick(['STORAGE_DISK_SSD', 'HW_CPU_X86_AVX512F', 'COMPUTE_VOLUME_MULTI_ATTACH'])];
    r.request_spec.forbidden_traits = ['CUSTOM_GPU_A40'];
  } },
  { name: 'alternates', share: 8, expect: 'placed', add(r) { r.return_alternates = true; r.max_alternates = 3; } },
  { name: 'multi-create', share: 4, expect: 'placed', add(r) { r.instance_uuids.push(uuid(), uuid()); } },
  { name: 'anti-affinity', share: 3, expect: 'placed', add(r) {
    r.instance_uuids.push(uuid());
    r.request_spec.instance_group = { uuid: uuid(), policy: 'anti-affinity' };
  } },
  { name: 'affinity', share: 2, expect: 'placed', add(r) {
    r.instance_uuids.push(uuid());
    r.request_spec.instance_group = { uuid: uuid(), policy: 'affinity' };
  } },
  { name: 'repeated', share: 2, expect: 'placed', add() {} },
  { name: 'too-large', share: 1, expect: 'refused', add(r) { r.request_spec.flavor.vcpus = 100000; } },
  { name: 'no-such-trait', share: 2, expect: 'refused', add(r) { r.request_spec.required_traits = ['CUSTOM_QUANTUM']; } },
  { name: 'bad-uuid', share: 1, expect: 'invalid', add(r) { r.instance_uuids = ['not-a-uuid']; } },
];

// shapeFor draws a shape.
export function shapeFor() {
  let roll = Math.random() * 100;
  for (const s of shapes) {
    roll -= s.share;
    if (roll < 0) return s;
  }
  return shapes[0];
}

// requestOf makes a request of a shape, as POST /v1/select_destinations takes it.
export function requestOf(shape, leaseSeconds) {
  let roll = Math.random() * 100;
  const f = flavors.find((x) => (roll -= x[3]) < 0) || flavors[0];
  const r = {
    request_id: uuid(),
    instance_uuids: [uuid()],
    request_spec: { flavor: { vcpus: f[0], memory_mb: f[1], root_gb: f[2] }, project_id: 'load' },
    claim_ttl: `${leaseSeconds}s`,
  };
  shape.add(r);
  return r;
}

function pick(list) { return list[Math.floor(Math.random() * list.length)]; }

// uuid makes a random (version 4) uuid.
export function uuid() {
  return 'xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx'.replace(/x/g, () => Math.floor(Math.random() * 16).toString(16));
}
