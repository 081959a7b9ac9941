"""The asynchronous store and the structures of its businesses, as `kvwal.aio` exports them."""
