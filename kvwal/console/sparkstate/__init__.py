"""The state of a Spark application, rebuilt from its kept event log as Spark's History Server rebuilds it.

    console.states.state_of(view, prefix)                     State: jobs, stages, executors, RDDs, SQL executions
    console.states.tasks_of(view, prefix, stage, attempt)     the tasks of one stage attempt, without the rest of the log
    summaries.task_distributions(tasks, quantiles)            quantiles of the metrics of tasks
    state.executions[id].graph, .metric_values                nodes and edges of a plan, and the text of each metric

The first two return None for an application whose log is not kept; `prefix` is that of its keys. States are cached, bounded by
bytes. Nothing in a state is changed after it was made, so all requests may read it.
"""
