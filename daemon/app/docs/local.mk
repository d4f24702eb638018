noinst_LIBRARIES += daemon/app/docs/libdocs.a
daemon_app_docs_libdocs_a_SOURCES = \
  daemon/app/docs/check_doc.c daemon/app/docs/check_doc.h \
  daemon/app/docs/doc_put.h \
  daemon/app/docs/facts_doc.c daemon/app/docs/facts_doc.h \
  daemon/app/docs/plan_doc.c daemon/app/docs/plan_doc.h \
  daemon/app/docs/status_doc.c daemon/app/docs/status_doc.h \
  daemon/app/docs/trace_doc.c daemon/app/docs/trace_doc.h
