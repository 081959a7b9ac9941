package kvwal.locks;

/** Operation of a transaction: it changes keys that its transaction has locked. */
public interface HoldsLocks { }
