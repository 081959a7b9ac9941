"""The peers of kvwal: other logs and stores under the same loads, on the same disk, as durable as kvwal."""
