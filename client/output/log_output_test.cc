#include "client/output/log_output.h"

#include <string>

#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

v1::LogPiece Piece(const std::string& worker, int64_t offset,
                   const std::string& data) {
  v1::LogPiece piece;
  piece.set_worker(worker);
  piece.set_offset(offset);
  piece.set_data(data);
  return piece;
}

std::string Print(LogPrinter* printer, const v1::LogPiece& piece) {
  int64_t lost = 0;
  const std::string text = printer->Print(piece, &lost);
  return lost == 0 ? text : text + "lost " + std::to_string(lost);
}

TEST(LogPrinterTest, LinesOfSeveralWorkersStayWhole) {
  LogPrinter printer(LogPrinter::Style::kPrefixed);
  EXPECT_EQ(Print(&printer, Piece("w0", 0, "one\ntw")), "w0 | one\n");
  EXPECT_EQ(Print(&printer, Piece("w1", 0, "other\n")), "w1 | other\n");
  EXPECT_EQ(Print(&printer, Piece("w0", 6, "o\nthr")), "w0 | two\n");
  EXPECT_EQ(printer.Flush(), "w0 | thr\n");
  EXPECT_EQ(printer.Flush(), "");
}

TEST(LogPrinterTest, JsonHasOffsetsToResumeFrom) {
  LogPrinter printer(LogPrinter::Style::kJson);
  printer.StartAt("w0", 100);
  EXPECT_EQ(Print(&printer, Piece("w0", 100, "one\ntwo \"2\"\n")),
            "{\"worker\":\"w0\",\"offset\":100,\"next_offset\":104,"
            "\"line\":\"one\"}\n"
            "{\"worker\":\"w0\",\"offset\":104,\"next_offset\":112,"
            "\"line\":\"two \\\"2\\\"\"}\n");
}

TEST(LogPrinterTest, RawIsWhatCame) {
  LogPrinter printer(LogPrinter::Style::kRaw);
  EXPECT_EQ(Print(&printer, Piece("w0", 0, "one\ntw")), "one\ntw");
  EXPECT_EQ(printer.Flush(), "");
}

TEST(LogPrinterTest, WhatIsNoLongerKeptIsCounted) {
  LogPrinter printer(LogPrinter::Style::kPrefixed);
  EXPECT_EQ(Print(&printer, Piece("w0", 0, "one\nhal")), "w0 | one\n");
  EXPECT_EQ(Print(&printer, Piece("w0", 50, "two\n")),
            "w0 | hal\nw0 | two\nlost 43");
}

v1::JobEvent Event(const std::string& kind) {
  v1::JobEvent event;
  event.set_revision(5);
  event.set_unix_microseconds(1'700'000'000'123'456);
  event.set_kind(kind);
  return event;
}

TEST(EventOutputTest, TextIsOneLine) {
  v1::JobEvent event = Event("running");
  event.set_message("transport shm");
  EXPECT_EQ(EventText(event),
            "2023-11-14T22:13:20.123Z      5  running          transport "
            "shm\n");
  EXPECT_EQ(EventText(Event("failed")),
            "2023-11-14T22:13:20.123Z      5  failed\n");
  event = Event("step");
  event.mutable_result()->set_step(7);
  event.mutable_result()->set_loss(2.5);
  EXPECT_EQ(EventText(event),
            "2023-11-14T22:13:20.123Z      5  step             step 7, loss "
            "2.5000, 0.000 s\n");
}

TEST(EventOutputTest, JsonHasWhatTheKindHas) {
  v1::JobEvent event = Event("failing");
  event.mutable_cause()->set_worker("w1");
  event.add_victims("w0");
  Json json = EventJson("job-1", event);
  EXPECT_EQ(json["revision"], 5);
  EXPECT_EQ(json["event"], "failing");
  EXPECT_EQ(json["job_id"], "job-1");
  EXPECT_EQ(json["cause"]["worker"], "w1");
  EXPECT_EQ(json["victims"][0], "w0");
  EXPECT_FALSE(json.contains("step"));
  event = Event("placed");
  event.set_epoch(2);
  event.add_workers("w0");
  json = EventJson("job-1", event);
  EXPECT_EQ(json["epoch"], 2);
  EXPECT_EQ(json["workers"], Json::array({"w0"}));
  EXPECT_FALSE(json.contains("cause"));
}

}  // namespace
}  // namespace stagecoach::client
