"""NiFi's write-ahead logs of FlowFiles: their folders, schemas, records and transactions, and the latest record of each."""
