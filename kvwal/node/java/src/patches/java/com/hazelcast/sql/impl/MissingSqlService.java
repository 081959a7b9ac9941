package com.hazelcast.sql.impl;

import com.hazelcast.internal.serialization.ReflectionClassNameFilter;
import com.hazelcast.sql.SqlResult;
import com.hazelcast.sql.SqlStatement;
import com.hazelcast.sql.impl.security.SqlSecurityContext;
import com.hazelcast.sql.impl.state.QueryClientStateRegistry;
import java.util.UUID;

/**
 * Stands before Hazelcast's class of this name on the class path: what a member without SQL answers to SQL. That one advises to
 * turn on Jet, which a node must not have: with Jet a client can send programs that the members run.
 */
public class MissingSqlService implements InternalSqlService {
    private static final String REFUSED = "A node of kvwal takes no SQL from clients; nothing was read or written."
        + " Ask the map with a predicate, or the node's root with `kvwal query ROOT \"SELECT ...\"`.";

    private final UUID member;

    public MissingSqlService(UUID member, boolean jetIsEnabled) {
        this.member = member;
    }

    private QueryException refused() {
        return QueryException.error(SqlErrorCode.GENERIC, REFUSED, member);
    }

    @Override
    public void start() { }

    @Override
    public void reset() { }

    @Override
    public void shutdown() { }

    @Override
    public void closeOnError(QueryId query) { }

    @Override
    public SqlResult execute(SqlStatement statement) {
        throw refused();
    }

    @Override
    public SqlResult execute(SqlStatement statement, SqlSecurityContext context) {
        throw refused();
    }

    @Override
    public SqlResult execute(SqlStatement statement, SqlSecurityContext context, QueryId query) {
        throw refused();
    }

    @Override
    public SqlResult execute(SqlStatement statement, SqlSecurityContext context, QueryId query, boolean skipStatistics) {
        throw refused();
    }

    @Override
    public QueryClientStateRegistry getClientStateRegistry() {
        throw refused();
    }

    @Override
    public long getSqlQueriesSubmittedCount() {
        return 0;
    }

    @Override
    public long getSqlStreamingQueriesExecutedCount() {
        return 0;
    }

    @Override
    public String mappingDdl(String map) {
        throw refused();
    }

    @Override
    public ReflectionClassNameFilter getReflectionClassNameFilter() {
        throw refused();
    }

    @Override
    public Object getOptimizer() {
        throw refused();
    }
}
