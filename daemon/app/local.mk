noinst_LIBRARIES += daemon/app/libdaemonapp.a
daemon_app_libdaemonapp_a_SOURCES = \
  daemon/app/app.c daemon/app/app.h \
  daemon/app/actions.c daemon/app/actions.h daemon/app/actions_impl.h daemon/app/commit.c daemon/app/commit.h \
  daemon/app/store_stall.c daemon/app/store_stall.h \
  daemon/app/docs/check_doc.c daemon/app/docs/check_doc.h \
  daemon/app/docs/doc_put.h \
  daemon/app/api/sessions.c daemon/app/api/sessions.h \
  daemon/app/daemon_config.c daemon/app/daemon_config.h \
  daemon/app/plans/epoch_package.c daemon/app/plans/epoch_package.h \
  daemon/app/plans/epoch_shards.c daemon/app/plans/epoch_shards.h \
  daemon/app/store/event_line.c daemon/app/store/event_line.h \
  daemon/app/event_log.c daemon/app/event_log.h \
  daemon/app/api/subscriptions.c daemon/app/api/subscriptions.h \
  daemon/app/api/metrics_collect.c daemon/app/api/metrics_collect.h \
  daemon/app/http/httpd.c daemon/app/http/httpd.h \
  daemon/app/plans/job_record.c daemon/app/plans/job_record.h \
  daemon/app/job_table.c daemon/app/job_table.h \
  daemon/app/http/prometheus.c daemon/app/http/prometheus.h \
  daemon/app/docs/plan_doc.c daemon/app/docs/plan_doc.h \
  daemon/app/plans/plan_choice.c daemon/app/plans/plan_choice.h \
  daemon/app/plan_queue.c daemon/app/plan_queue.h \
  daemon/app/plans/plan_request.c daemon/app/plans/plan_request.h \
  daemon/app/api/admin_queries.c daemon/app/api/admin_queries.h \
  daemon/app/api/admin_requests.c daemon/app/api/admin_requests.h \
  daemon/app/docs/status_doc.c daemon/app/docs/status_doc.h \
  daemon/app/store/store.c daemon/app/store/store.h \
  daemon/app/store/tensorboard_event.c daemon/app/store/tensorboard_event.h \
  daemon/app/store/tensorboard_file.c daemon/app/store/tensorboard_file.h \
  daemon/app/docs/trace_doc.c daemon/app/docs/trace_doc.h \
  daemon/app/api/trace_collect.c daemon/app/api/trace_collect.h

# What links libdaemonapp needs these behind it.
DAEMONAPP_LIBS = daemon/app/libdaemonapp.a $(NET_LIBS) daemon/cluster/libcluster.a \
  $(PLANNER_LIBS) $(WIRE_LIBS) $(SQLITE_LIBS) $(MICROHTTPD_LIBS)

sbin_PROGRAMS += hspmdd
hspmdd_SOURCES = daemon/app/hspmdd.c
hspmdd_LDADD = $(DAEMONAPP_LIBS)
dist_man_MANS += daemon/app/hspmdd.8 daemon/app/hspmdd.yaml.5
