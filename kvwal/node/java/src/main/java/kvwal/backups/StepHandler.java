package kvwal.backups;

/** Mark of the response handler of an operation whose steps have begun: see StepRunner. */
public interface StepHandler { }
